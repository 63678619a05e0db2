"""`judge()`: the stages of one judgement, from static checks to timing; the first that fails ends it.

The process that calls `judge()` checks, compares and decides. It never loads a candidate's code and never
opens a device; workers compile, run and time. `Judge._decide` and the methods that it calls run the stages in
order, each under its name in the verdict's `stages_s`. Not covered: the rules of each stage (`admission`,
`verifying`, `timing.decision`), many candidates at once (`kcurate.judge.referees.batch`).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kcurate.backends.base import Compiled
from kcurate.core import store
from kcurate.errors import BackendError
from kcurate.judge import admission, at_bench, negative_controls, reference_runs, sanitizer, trials, verifying
from kcurate.judge.case import Case, Ruling
from kcurate.judge.checks import binary
from kcurate.judge.gpu_lock import GpuLock, lock_name
from kcurate.judge.made_slow import MadeSlow
from kcurate.judge.reference_runs import StartOver, WideReference
from kcurate.judge.thread_orders import examine_orders
from kcurate.judge.timing import a_against_a, calibration
from kcurate.judge.timing.decision import PairTimer, TimingJob, time_case, time_other_size
from kcurate.judge.timing_job import prepare_timing
from kcurate.judge.workers import compiling
from kcurate.judge.workers.nursery import Nursery, Role
from kcurate.judge.workers.requests import Drop
from kcurate.judge.workers.side_proxy import SideProxy, on_both_sides
from kcurate.judge.workers.spares import RunWorkerPool
from kcurate.records import SIDES, BenchSize, Candidate, Environment, Outcome, SizeTiming, Verdict
from kcurate.records.pair import SideName
from kcurate.verdicts.keys import verdict_key

# Attempts at a candidate if a worker dies without an error, or the reference fails in an extra run
# (`StartOver`).
ATTEMPTS = 3
# The GPU's state, recorded before and after timing.
STATE = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "clock_limits")

Sides = Mapping[SideName, SideProxy]
Binaries = Mapping[SideName, Compiled]


@dataclass(frozen=True)
class JudgeConfig:
    """How to judge. `seed` None: a fresh secret seed per candidate; set it only in tests.

    `torch`: run a PyTorch reference, as trusted code. `workspace`: where to look for naive variants of the
    suite of a slow side that a rule or a model wrote, beside the built-in pairs. `counted`: count the work of
    such a side even if nothing is timed, so that no speedup is claimed. `orders`: how many further thread
    orders the emulator tries on both sides; fewer where that takes long. `vouched`: verdict keys of
    candidates that the caller itself has just derived from shipped texts, such as by rules; like shipped
    pairs, they share run workers. `minimal`: rules of which a side was found minimal before
    (`kcurate.verdicts.standing.minimal_templates`).
    """

    backend: str = "emulator"
    gpu: int = 0
    seed: int | None = None
    sanitize: bool = False
    timed: bool = True
    spares: int = 2
    calibrate: bool = True
    torch: bool = False
    workspace: Path | None = None
    counted: bool = False
    orders: int = 4
    vouched: frozenset[str] = frozenset()
    minimal: frozenset[str] = frozenset()


def judge(candidate: Candidate, config: JudgeConfig | None = None) -> Verdict:
    """Judge one candidate. For several, keep a `Judge`: its workers stay warm.

    Raises:
        MissingDependencyError: this machine lacks the compiler or the GPU.
    """
    with contextlib.closing(Judge(config or JudgeConfig())) as warm_judge:
        return warm_judge.judge(candidate)


def reference_side(candidate: Candidate) -> SideName:
    """The side whose outputs count as correct: the one that was not generated, else the slow one."""
    return "fast" if candidate.origin.made == "slow" else "slow"


def harness_verdict(candidate: Candidate, config: JudgeConfig, detail: str) -> Verdict:
    """The verdict when the harness failed; a resumed run judges the candidate again."""
    environment = Environment(backend=config.backend, device=config.backend)
    case = Case(candidate, verdict_key(candidate), environment)
    return case.verdict(Ruling(Outcome.HARNESS_ERROR, detail))


class Judge:
    """Judges one candidate at a time with warm workers; a context manager. Not thread safe.

    Raises:
        MissingDependencyError: this machine lacks the compiler or the GPU.
    """

    def __init__(self, config: JudgeConfig) -> None:
        self.config = config
        self._nursery = Nursery(config.backend)
        try:
            self.pool = RunWorkerPool(
                self._nursery, Role("run", config.backend, config.gpu, {}), config.spares, config.vouched
            )
            self._environment = self.pool.environment
            self._lock = GpuLock(lock_name(self._environment))
            self._retry_lock = GpuLock(f"{lock_name(self._environment)}-again")  # one retry at a time
            arch = {"arch": self.pool.arch} if self.pool.arch else {}
            self._compilers = compiling.CompileWorkers(
                self._nursery, Role("compile", config.backend, config.gpu, arch)
            )
            self.controls = negative_controls.Controls()
            self._made_slow = MadeSlow(config.workspace, config.minimal)
            self._calibration: calibration.Calibration | None = None
            self._failed_runs: set[tuple[str, str]] = (
                set()
            )  # (key of a reference, kind of extra run) that failed
        except BaseException:
            self._nursery.close()
            raise

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def environment(self) -> Environment:
        """The device, driver and compiler of this judge's verdicts."""
        return self._environment

    def close(self) -> None:
        """End all workers."""
        self.pool.close()
        self._compilers.close()
        self._made_slow.close()
        self._nursery.close()
        self._lock.close()
        self._retry_lock.close()

    @property
    def usable(self) -> bool:
        """False when the process that forks workers is gone; this judge cannot recover."""
        return self._nursery.alive

    def judge(self, candidate: Candidate) -> Verdict:
        """Judge one candidate; retry when a worker died without an error.

        Raises:
            MissingDependencyError: this machine lacks something that judging needs.
        """
        key = verdict_key(candidate)
        ruling = self._attempt(case := Case(candidate, key, self._environment))
        for _ in range(ATTEMPTS - 1):
            if ruling.unexplained:
                self.pool.start_afresh()  # memory may have been short, or a reused worker in a bad state
                with self._retry_lock.exclusive():
                    ruling = self._attempt(case := Case(candidate, key, self._environment))
        ruling = self._made_slow.admit_minimal(case, ruling, self.judge, self.config.counted)
        for lock in (self._lock, self.pool.lock) if self.config.backend == "cuda" else ():
            case.add_seconds(lock.seconds)
            lock.seconds.clear()
        return case.verdict(ruling)

    def _attempt(self, case: Case) -> Ruling:
        try:
            return self._decide(case)
        except StartOver as failed:
            self._failed_runs.add(
                (store.side_key(case.candidate, reference_side(case.candidate)), failed.kind)
            )
            text = f"the reference failed in a run of ours ({failed.kind})"
            return Ruling(Outcome.HARNESS_ERROR, text, unexplained=True)
        except Ruling as early:
            return early
        except BackendError as error:
            text = error.what.strip().splitlines()[-1]
            return Ruling(Outcome.HARNESS_ERROR, text, log=error.what, unexplained=True)
        finally:
            self.pool.refill()

    def _decide(self, case: Case) -> Ruling:
        with case.stage("check"):
            admission.admit_plans(case, torch=self.config.torch)
            admission.admit_sources(case)
        seed = secrets.randbits(48) if self.config.seed is None else self.config.seed
        reference = reference_side(case.candidate)
        primed = self._prime(case.candidate, reference, seed)
        with case.stage("compile"):  # a rejected candidate must not wait for workers that wait for the GPU
            compiled = compiling.compile_case(case, self._compilers, sanitize=self.config.sanitize)
            admission.admit_binaries(case, compiled)
        if primed is not None:
            primed.result()
        with case.stage("start"):
            sides = self.pool.take(case.candidate, reference)
        try:
            ruling = self._run(case, sides, compiled, seed)
        except Ruling as early:
            reference_failed = early.side in (None, reference)
            early.unexplained |= any(proxy.worker.used for proxy in sides.values())
            self.pool.release(sides, keep=None if reference_failed else reference)
            raise
        except BaseException:
            self.pool.release(sides, keep=None)
            raise
        shares = self.pool.shares(case.candidate)
        for side, proxy in sides.items():
            proxy.shipped = shares and getattr(case.candidate, side).language != "torch"
        self.pool.release(sides, keep=reference)
        return ruling

    @property
    def _timed(self) -> bool:
        return self.config.backend == "cuda" and self.config.timed

    def _prime(self, candidate: Candidate, reference: SideName, seed: int) -> Future[None] | None:
        """Start generating the inputs of bench-size trials in the workers, while the sides compile."""
        if not self._timed or candidate.problem is None:
            return None
        bench_trials = (
            *trials.bench_trials(candidate.problem, seed),
            *trials.timed_trials(candidate.problem, seed),
        )
        requests = [trial.request for trial in bench_trials]
        return self.pool.prime(candidate, reference, requests)

    def _run(self, case: Case, sides: Sides, compiled: Binaries, seed: int) -> Ruling:
        candidate, reference = case.candidate, reference_side(case.candidate)
        wide = None
        if self._survives(case, reference_runs.WIDE):
            with case.stage("compile"):
                wide = reference_runs.wide_reference(self._compilers, candidate, reference, timed=self._timed)
        with case.stage("load"):
            self._load(case, sides, compiled, wide)
        verification = verifying.Verification(case, sides, reference, seed, self._lock, wide)
        ruling = self._verify_and_time(case, sides, compiled, verification)
        if wide is not None and wide.used:
            case.passed("wide_reference")
        return ruling

    def _survives(self, case: Case, kind: str) -> bool:
        """Whether no extra run of this kind has failed for this reference so far."""
        return (store.side_key(case.candidate, reference_side(case.candidate)), kind) not in self._failed_runs

    def _load(self, case: Case, sides: Sides, compiled: Binaries, wide: WideReference | None) -> None:
        if self._timed:
            self.pool.compile_helpers(self._compilers)
        with self._lock.shared():
            if self._timed:
                on_both_sides(lambda side: self.pool.load_helpers(sides[side]))
            on_both_sides(lambda side: sides[side].load(case.candidate, compiled[side]))
            if wide is not None:
                with reference_runs.extra_run(reference_runs.WIDE):
                    sides[reference_side(case.candidate)].load(case.candidate, wide.compiled, "wide")

    def _verify_and_time(
        self, case: Case, sides: Sides, compiled: Binaries, verification: verifying.Verification
    ) -> Ruling:
        self._verify(case, compiled, verification)
        if not self._timed:
            why = "timing is off" if self.config.backend == "cuda" else "the emulator is not timed"
            in_triton = any(getattr(case.candidate, side).language == "triton" for side in SIDES)
            if self.config.backend != "cuda" and in_triton:
                why = "Triton's interpreter and the emulator are not timed"
            return Ruling(Outcome.CORRECT, f"both sides agree; {why}")
        if binary.same(case.candidate, compiled):
            return Ruling(Outcome.NOT_FASTER, "both sides have the same machine code")
        ruling = self._time(case, sides, verification)
        ours = case.candidate.origin.trust == "ours"
        if ruling.outcome is Outcome.CONFIRMED and not ours and not self.config.sanitize:
            sanitizer.examine_case(
                case, compiled, self.config.gpu, verification.seed, self._lock, sanitizer.PUBLISHED
            )
        with case.stage("environment"):
            after = sides["fast"].environment().details
            case.add_details(**{f"after_{name}": after[name] for name in STATE if name in after})
        return ruling

    def _verify(self, case: Case, compiled: Binaries, verification: verifying.Verification) -> None:
        """All checks without timing: trials, negative controls, counted work, thread orders, sanitizer."""
        problem, survives = verification.problem, partial(self._survives, case)
        with case.stage("verify"):
            verification.run()
        rerun = None
        if survives(reference_runs.CHANGED_INPUTS):
            rerun = negative_controls.rerunning(case, verification, survives)
        with case.stage("controls"):
            self.controls.admit(case, verification, rerun)
            if not self._timed and rerun is not None:
                spoil = negative_controls.spoiling(problem, verification.expected, rerun, verification.exact)
                tried = trials.largest(problem, verification.tried)
                self.controls.admit_tolerance(case, verification, tried, spoil)
        if not self._timed and self.config.counted:
            with case.stage("made_slow"):
                self._made_slow.admit_counts(case)
        if self.config.backend == "emulator" and self.config.orders:
            examine_orders(verification, self._compilers, self.config.orders)
        if self.config.sanitize:
            sanitizer.examine_case(case, compiled, self.config.gpu, verification.seed, self._lock)

    def _time(self, case: Case, sides: Sides, verification: verifying.Verification) -> Ruling:
        """Time both sides at all bench sizes, and examine a speedup over a slow side that was made."""
        with case.stage("calibrate"):
            calibrated = self.calibrate()
        job = self._prepare(case, verification)
        with case.stage("environment"):
            case.replace_environment(sides["fast"].environment())
        with case.stage("time"):
            ruling = time_case(case, sides, job, calibrated, self._lock)

        def time_size(size: BenchSize, prepare: Callable[..., TimingJob]) -> SizeTiming:
            on_both_sides(lambda side: sides[side].call(Drop()))
            job = prepare(case, verification, size)
            return time_other_size(size.name, sides, job, calibrated, self._lock)

        for size in verification.problem.sizes.others:
            case.sizes.append(time_size(size, self._prepare))
        with case.stage("made_slow"):
            self._made_slow.admit_times(case, ruling, lambda size: time_size(size, self._timed_job))
        return ruling

    def _prepare(
        self, case: Case, verification: verifying.Verification, size: BenchSize | None = None
    ) -> TimingJob:
        """Verify both sides at a bench size (None: the headline) and prepare timing them."""
        runs = at_bench.BenchRuns(verification)
        with case.stage("verify_at_bench"):
            runs.run_structured(size)
        with case.stage("controls"):
            if self._survives(case, reference_runs.CHANGED_INPUTS):
                tried = trials.at_bench(verification.problem, verification.seed, size)
                self.controls.admit_tolerance(case, verification, tried, runs.spoiled)
            runs.forget()
        return self._timed_job(case, verification, size, runs)

    def _timed_job(
        self,
        case: Case,
        verification: verifying.Verification,
        size: BenchSize | None,
        runs: at_bench.BenchRuns | None = None,
    ) -> TimingJob:
        with case.stage("prepare_timing"):
            return prepare_timing(runs or at_bench.BenchRuns(verification), size)

    def calibrate(self) -> calibration.Calibration:
        """This GPU's calibration: cached, else measured now (seconds, once per GPU and driver)."""
        if self._calibration is None:
            lock = GpuLock(f"{lock_name(self._environment)}-calibration")
            with contextlib.closing(lock), lock.exclusive():
                self._calibration = calibration.load(self._environment)
                if self._calibration is None:
                    self.pool.compile_helpers(self._compilers)
                    self._calibration = calibration.measure(self.pool, self._lock)
                    if self.config.calibrate:
                        self._calibration = a_against_a.with_strays(self, self._calibration)
                        calibration.save(self._environment, self._calibration)
        return self._calibration

    @contextlib.contextmanager
    def pair_timer(self, candidate: Candidate, seed: int) -> Iterator[PairTimer]:
        """A timer of both sides, in fresh workers, verified at the bench size; they end with the context.

        Raises:
            Ruling: a side failed. KcurateError: this machine cannot time it.
        """
        case = Case(candidate, "", self._environment)
        compiled = compiling.compile_case(case, self._compilers)
        self.pool.compile_helpers(self._compilers)
        sides = {side: self.pool.fresh(side) for side in SIDES}
        try:
            for side, proxy in sides.items():
                proxy.load(candidate, compiled[side])
                self.pool.load_helpers(proxy)
            verification = verifying.Verification(case, sides, "slow", seed, self._lock)
            job = prepare_timing(at_bench.BenchRuns(verification))
            yield PairTimer(sides, job, self.calibrate(), self._lock)
        finally:
            self.pool.release(sides, keep=None)
            self.pool.refill()
