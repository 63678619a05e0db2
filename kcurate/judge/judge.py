"""`judge()`: a candidate in, a verdict out; the one place where it is decided what a candidate is.

This process decides: it checks, asks workers to compile and run, compares, and reads times; it never loads
code of a candidate and never opens a device. Stages in the order of `records.Outcome`; the first that fails
gives the outcome. Not covered: each stage's rule (`admission`, `verifying`, `timed`), many candidates at once
(`kcurate.judge.pool`).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from kcurate import store
from kcurate.backends.base import Compiled
from kcurate.errors import BackendError
from kcurate.judge import (
    PROTOCOL,
    admission,
    calibration,
    compiling,
    controls,
    machine_code,
    sanitizer,
    self_test,
    verifying,
)
from kcurate.judge.case import Case, Ruling
from kcurate.judge.gpu_lock import GpuLock, lock_name
from kcurate.judge.running import RunningSide, both_sides
from kcurate.judge.stock import Stock, side_key
from kcurate.judge.timed import Stopwatch, time_case
from kcurate.judge.workers import Nursery, Role
from kcurate.records import SIDES, Candidate, Environment, Outcome, Verdict
from kcurate.records.pair import SideName

# Tries at a candidate whose process ended without a word.
ATTEMPTS = 3
# The GPU's state, noted before and after times are taken.
STATE = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "clock_limits")


@dataclass(frozen=True)
class JudgeConfig:
    """How to judge. `seed` None: a secret, fresh one a candidate (anything else is for tests). `torch` lets a
    reference in PyTorch run: its text is trusted like our own."""

    backend: str = "emulator"
    gpu: int = 0
    seed: int | None = None
    sanitize: bool = False
    timed: bool = True
    spares: int = 4
    calibrate: bool = True
    torch: bool = False


def judge(candidate: Candidate, config: JudgeConfig | None = None) -> Verdict:
    """Judge one candidate; for many, keep a `Judge` (its workers stay warm).

    Raises:
        MissingDependencyError: this machine lacks the compiler or the GPU.
    """
    with contextlib.closing(Judge(config or JudgeConfig())) as one:
        return one.judge(candidate)


def reference_side(candidate: Candidate) -> SideName:
    """The side whose outputs count as right: the one that was not made; of two originals the slow one."""
    return "fast" if candidate.origin.made == "slow" else "slow"


def harness_verdict(candidate: Candidate, config: JudgeConfig, detail: str) -> Verdict:
    """The verdict when we, not the candidate, failed; a resumed run judges it again."""
    key = store.candidate_key(candidate, protocol=PROTOCOL)
    environment = Environment(backend=config.backend, device=config.backend)
    return Case(candidate, key, environment).verdict(Ruling(Outcome.HARNESS_ERROR, detail))


class Judge:
    """Warm workers and a judgement. Not thread safe; `close` it.

    Raises:
        MissingDependencyError: this machine lacks the compiler or the GPU.
    """

    def __init__(self, config: JudgeConfig) -> None:
        self.config = config
        self._nursery = Nursery(config.backend)
        try:
            self.stock = Stock(self._nursery, Role("run", config.backend, config.gpu, {}), config.spares)
            self._environment = self.stock.environment
            self._lock = GpuLock(lock_name(self._environment))
            arch = {"arch": self.stock.arch} if self.stock.arch else {}
            self._compilers = compiling.CompileWorkers(
                self._nursery, Role("compile", config.backend, config.gpu, arch)
            )
            self._admitted: set[str] = set()
            self._calibration: calibration.Calibration | None = None
        except BaseException:
            self._nursery.close()
            raise

    def environment(self) -> Environment:
        """Where this judge makes its verdicts."""
        return self._environment

    def close(self) -> None:
        """End all workers."""
        self.stock.close()
        self._compilers.close()
        self._nursery.close()
        self._lock.close()

    @property
    def usable(self) -> bool:
        """False when the process that starts workers is gone, and with it this judge."""
        return self._nursery.alive

    def judge(self, candidate: Candidate) -> Verdict:
        """Judge one candidate; once more when a process ended and nothing says why.

        Raises:
            MissingDependencyError: this machine lacks something that judging needs.
        """
        key = store.candidate_key(candidate, protocol=PROTOCOL)
        for _ in range(ATTEMPTS):
            case = Case(candidate, key, self._environment)
            try:
                ruling = self._decide(case)
            except Ruling as early:
                ruling = early
            except BackendError as error:
                text = error.what.strip().splitlines()[-1]
                ruling = Ruling(Outcome.HARNESS_ERROR, text, log=error.what, unexplained=True)
            finally:
                self.stock.refill()
            if not ruling.unexplained:
                break
        return case.verdict(ruling)

    def _decide(self, case: Case) -> Ruling:
        with case.stage("check"):
            admission.admit_plans(case, torch=self.config.torch)
            admission.admit_sources(case)
        seed = secrets.randbits(48) if self.config.seed is None else self.config.seed
        reference = reference_side(case.candidate)
        primed = self._prime(case.candidate, reference, seed)
        with case.stage("compile"):  # who fails here does not wait for workers, which may wait for the GPU
            compiled = compiling.compile_case(case, self._compilers, sanitize=self.config.sanitize)
            admission.admit_binaries(case, compiled)
        if primed is not None:
            primed.result()
        with case.stage("start"):
            sides = self.stock.take(case.candidate, reference)
        try:
            ruling = self._run(case, sides, compiled, seed)
        except Ruling as early:
            innocent = early.side not in (None, reference)
            self.stock.release(sides, keep=reference if innocent else None)
            raise
        except BaseException:
            self.stock.release(sides, keep=None)
            raise
        self.stock.release(sides, keep=reference)
        return ruling

    @property
    def _timed(self) -> bool:
        return self.config.backend == "cuda" and self.config.timed

    def _prime(self, candidate: Candidate, reference: SideName, seed: int) -> Future[None] | None:
        """Let the workers make the timed runs' inputs while others compile."""
        if not self._timed or candidate.problem is None:
            return None
        ahead = [trial.request for trial in verifying.timed_trials(candidate.problem, seed)]
        return self.stock.prime(candidate, reference, ahead)

    def _run(
        self,
        case: Case,
        sides: Mapping[SideName, RunningSide],
        compiled: Mapping[SideName, Compiled],
        seed: int,
    ) -> Ruling:
        timed = self._timed
        with case.stage("load"), self._lock.shared():
            if timed:
                self.stock.compile_helpers(self._compilers)

            def load(side: SideName) -> None:
                sides[side].load(case.candidate, compiled[side])
                if timed:
                    self.stock.give_helpers(sides[side])

            both_sides(load)
        verification = verifying.Verification(case, sides, reference_side(case.candidate), seed, self._lock)
        with case.stage("verify"):
            verification.run()
        with case.stage("controls"):
            self._admit_problem(case, verification)
        if self.config.sanitize:
            with case.stage("sanitize"):
                sanitizer.examine_case(case, compiled, self.config.gpu, seed, self._lock)
        if not timed:
            why = (
                "no times were asked for" if self.config.backend == "cuda" else "the emulator takes no times"
            )
            return Ruling(Outcome.CORRECT, f"both sides agree; {why}")
        if machine_code.same(case.candidate, compiled):
            return Ruling(Outcome.NOT_FASTER, "both sides have the same machine code")
        with case.stage("calibrate"):
            known = self.clock()
        with case.stage("prepare_timing"):
            job = verification.prepare_timing()
        with case.stage("environment"):
            case.environment = sides["fast"].environment()
        with case.stage("time"):
            ruling = time_case(case, sides, job, known, self._lock)
        with case.stage("recheck"):
            verification.recheck(job)
        with case.stage("environment"):
            after = sides["fast"].environment().details
            case.note(**{f"after_{name}": after[name] for name in STATE if name in after})
        return ruling

    def _admit_problem(self, case: Case, verification: verifying.Verification) -> None:
        """Refuse a problem whose tests would accept a wrong answer; once a reference, whose outputs tell."""
        key = side_key(case.candidate, verification.reference)
        if key not in self._admitted:
            found = controls.weakness(verification.problem, verification.tried, verification.expected)
            if found is not None:
                raise Ruling(Outcome.MALFORMED, f"the problem is too weak: its tests accept {found}")
            self._admitted.add(key)
        case.passed("controls")

    def clock(self) -> calibration.Calibration:
        """This GPU's readings: kept ones, else measured now (some seconds, once a GPU and driver)."""
        if self._calibration is None:
            alone = GpuLock(f"{lock_name(self._environment)}-calibration")
            with contextlib.closing(alone), alone.exclusive():
                self._calibration = calibration.load(self._environment)
                if self._calibration is None:
                    self._calibration = self._measure_clock()
                    if self.config.calibrate:
                        self._calibration = self_test.with_strays(self, self._calibration)
                        calibration.save(self._environment, self._calibration)
        return self._calibration

    def _measure_clock(self) -> calibration.Calibration:
        """Readings of several processes: what an event pair reads jumps a little from process to process."""
        self.stock.compile_helpers(self._compilers)
        found = []
        for _ in range(calibration.PROCESSES):
            running = self.stock.fresh("slow")
            try:
                with self._lock.exclusive():
                    self.stock.give_helpers(running)
                    found.append(running.call("calibrate").body["clock"])
            finally:
                running.worker.kill()
        return calibration.from_readings(found)

    @contextlib.contextmanager
    def stopwatch(self, candidate: Candidate, seed: int) -> Iterator[Stopwatch]:
        """Both sides in fresh processes, verified at the bench size, ready to be timed many times.

        Raises:
            Ruling: a side failed. KcurateError: this machine cannot time it.
        """
        case = Case(candidate, "", self._environment)
        compiled = compiling.compile_case(case, self._compilers)
        self.stock.compile_helpers(self._compilers)
        sides = {side: self.stock.fresh(side) for side in SIDES}
        try:
            for side, running in sides.items():
                running.load(candidate, compiled[side])
                self.stock.give_helpers(running)
            verification = verifying.Verification(case, sides, "slow", seed, self._lock)
            job = verification.prepare_timing()
            yield Stopwatch(sides, job, self.clock(), self._lock)
        finally:
            self.stock.release(sides, keep=None)
            self.stock.refill()
