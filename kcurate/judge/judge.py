"""`judge()`: a candidate in, a verdict out; the one place where it is decided what a candidate is.

This process decides: it checks, asks workers to compile and run, compares, and reads times; it never loads
code of a candidate and never opens a device. Stages in the order of `records.Outcome`; the first that fails
gives the outcome. Not covered: each stage's rule (`admission`, `verifying`, `timed`), many candidates at once
(`kcurate.judge.pool`).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from kcurate import codec, store
from kcurate.backends.base import Compiled, CompileFailure
from kcurate.errors import BackendError
from kcurate.judge import admission, calibration, compiling, verifying
from kcurate.judge.case import Case, Ruling
from kcurate.judge.gpu_lock import GpuLock
from kcurate.judge.running import RUN_TIMEOUT_S, RunningSide
from kcurate.judge.timed import time_case
from kcurate.judge.workers import Nursery, Role, Spares
from kcurate.records import SIDES, Candidate, Environment, Outcome, Verdict
from kcurate.records.pair import SideName

# Part of every verdict's key: a change of what is proved makes old verdicts invalid.
PROTOCOL = "1"
# The GPU's state, noted before and after times are taken.
STATE = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "clock_limits")


@dataclass(frozen=True)
class JudgeConfig:
    """How to judge. `seed` None: a secret, fresh one a candidate (anything else is for tests)."""

    backend: str = "emulator"
    gpu: int = 0
    seed: int | None = None
    sanitize: bool = False
    timed: bool = True
    spares: int = 2
    calibrate: bool = True


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
            options = {"lock": f"gpu{config.gpu}"} if config.backend == "cuda" else {}
            run = Role("run", config.backend, config.gpu, options)
            self._spares = Spares(self._nursery, run, config.spares)
            greeting = self._spares.first().ready().body
            self._environment = codec.from_data(Environment, greeting["environment"])
            arch = {"arch": greeting["arch"]} if greeting.get("arch") else {}
            self._compilers = compiling.CompileWorkers(
                self._nursery, Role("compile", config.backend, config.gpu, arch)
            )
            self._lock = GpuLock(f"gpu{config.gpu}" if config.backend == "cuda" else config.backend)
            self._calibration: calibration.Calibration | None = None
            self._helpers: Compiled | None = None
        except BaseException:
            self._nursery.close()
            raise

    def environment(self) -> Environment:
        """Where this judge makes its verdicts."""
        return self._environment

    def close(self) -> None:
        """End all workers."""
        self._spares.close()
        self._compilers.close()
        self._nursery.close()
        self._lock.close()

    def judge(self, candidate: Candidate) -> Verdict:
        """Judge one candidate.

        Raises:
            MissingDependencyError: this machine lacks something that judging needs.
        """
        key = store.candidate_key(candidate, protocol=PROTOCOL)
        case = Case(candidate, key, self._environment)
        try:
            ruling = self._decide(case)
        except Ruling as early:
            ruling = early
        except BackendError as error:
            ruling = Ruling(Outcome.HARNESS_ERROR, error.what.strip().splitlines()[-1], log=error.what)
        return case.verdict(ruling)

    def _decide(self, case: Case) -> Ruling:
        with case.stage("check"):
            admission.admit_plans(case)
            admission.admit_sources(case)
        with case.stage("compile"):
            compiled = self._compile(case)
            admission.admit_binaries(case, compiled)
        sides = self._take_workers(case)
        try:
            return self._run(case, sides, compiled)
        finally:
            for running in sides.values():
                running.worker.kill()

    def _compile(self, case: Case) -> dict[SideName, Compiled]:
        candidate = case.candidate
        requests = [compiling.Request.of(candidate, side) for side in SIDES]
        made = dict(zip(SIDES, self._compilers.compile(requests), strict=True))
        for side in SIDES:
            answer = made[side]
            if isinstance(answer, CompileFailure):
                detail = {"error": "does not compile", "timeout": "took too long to compile"}
                raise Ruling(
                    Outcome.COMPILE_ERROR,
                    detail.get(answer.reason, "the compiler ran out of memory"),
                    side=side,
                    log=answer.log,
                )
            case.report(side, resources=answer.resources, binary_sha256=answer.sha256)
        compiled = {side: answer for side, answer in made.items() if isinstance(answer, Compiled)}
        case.passed("compile")
        return compiled

    def _take_workers(self, case: Case) -> dict[SideName, RunningSide]:
        with case.stage("start"):
            timeout_s = RUN_TIMEOUT_S[self.config.backend]
            return {side: RunningSide(side, self._spares.take(), timeout_s) for side in SIDES}

    def _run(
        self, case: Case, sides: Mapping[SideName, RunningSide], compiled: Mapping[SideName, Compiled]
    ) -> Ruling:
        seed = secrets.randbits(48) if self.config.seed is None else self.config.seed
        reference = reference_side(case.candidate)
        with case.stage("load"), self._lock.shared():
            for side in SIDES:
                sides[side].load(case.candidate, compiled[side])
        verification = verifying.Verification(case, sides, reference, seed, self._lock)
        with case.stage("verify"):
            verification.run()
        if self.config.backend != "cuda":
            return Ruling(Outcome.CORRECT, "both sides agree; the emulator takes no times")
        if not self.config.timed:
            return Ruling(Outcome.CORRECT, "both sides agree; no times were asked for")
        if same_machine_code(case.candidate, compiled):
            return Ruling(Outcome.NOT_FASTER, "both sides have the same machine code")
        with case.stage("prepare_timing"):
            job = verification.prepare_timing()
            known = self._known_calibration()
        with case.stage("time"):
            for running in sides.values():
                self._give_helpers(running)
            case.environment = sides["fast"].environment()
            ruling = time_case(case, sides, job, known, self._lock)
        with case.stage("recheck"):
            verification.recheck(job)
            after = sides["fast"].environment().details
            case.note(**{f"after_{name}": after[name] for name in STATE if name in after})
        return ruling

    def _give_helpers(self, running: RunningSide) -> None:
        """Load our timing kernels into a worker."""
        if self._helpers is None:
            from kcurate.backends.cuda import bench

            request = compiling.Request(bench.HELPERS, bench.HELPER_ENTRIES, ())
            made = self._compilers.compile([request])[0]
            if isinstance(made, CompileFailure):
                raise BackendError(f"our own timing kernels do not compile: {made.log}")
            self._helpers = made
        running.call("helpers", *compiling.pack_compiled(self._helpers))

    def _known_calibration(self) -> calibration.Calibration:
        """This GPU's readings: kept ones, else measured now with a worker of its own."""
        if self._calibration is None:
            found = calibration.load(self._environment)
            if found is None:
                found = self._measure_clock()
                calibration.save(self._environment, found)
            self._calibration = found
        return self._calibration

    def _measure_clock(self) -> calibration.Calibration:
        running = RunningSide("slow", self._spares.take(), RUN_TIMEOUT_S[self.config.backend])
        try:
            with self._lock.exclusive():
                self._give_helpers(running)
                read = running.call("calibrate").body["clock"]
        finally:
            running.worker.kill()
        return calibration.Calibration(
            float(read["copy_bytes_per_s"]), float(read["event_overhead_us"]), source="measured"
        )


def same_machine_code(candidate: Candidate, compiled: Mapping[SideName, Compiled]) -> bool:
    """Whether both sides launch the same machine code in the same way."""
    if compiled["slow"].binary == compiled["fast"].binary:
        return candidate.slow.plan == candidate.fast.plan
    return False
