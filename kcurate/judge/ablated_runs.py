"""Runs of a slow side on the emulator with some of its parts switched off, within a budget of processor time.

One worker holds one binary, which contains the guards of all parts; each request says which parts to leave
out. The worker is replaced after a failure and when the plan changes. Not covered: which parts are tried and
what follows from a run (`kcurate.judge.needless`), the counts (`kcurate.judge.counted_runs`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kcurate.backends.base import Compiled, Counts
from kcurate.core import time_limits
from kcurate.core.time_limits import STARVED
from kcurate.errors import BackendError
from kcurate.judge.agreement import Outputs, arrays_of
from kcurate.judge.case import Ruling
from kcurate.judge.counted_runs import SAMPLED_BLOCKS, CountedRuns
from kcurate.judge.trials import Trial
from kcurate.judge.workers.protocol import MAX_BLOB_BYTES
from kcurate.judge.workers.requests import Count, CountsAnswer, Reply
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.problem.outputs import logical_bytes
from kcurate.records import Candidate, Outcome, Step

# A run may take this many times the processor time of the unchanged side, and at least so many seconds.
RUN_RATIO, LEAST_RUN_S = 4.0, 1.0
# Outputs of more bytes are not hashed at the bench size, to save time.
MOST_HASHED_BYTES = 1 << 28


@dataclass(frozen=True)
class CountedRun:
    """One run of a side: its outputs (none at the bench size), their digest, counts and processor seconds."""

    trial: Trial
    outputs: Outputs
    digest: str
    counts: Counts
    cpu_s: float


class AblatedRuns:
    """Runs one binary of a slow side. Call `close` at the end.

    `cut_off`: the budget ended, or a run was stopped because other processes used the machine.
    """

    def __init__(self, runs: CountedRuns, candidate: Candidate, compiled: Compiled) -> None:
        assert candidate.problem is not None, "plans are admitted first"
        self.cut_off = False
        self._runs, self._candidate, self._compiled = runs, candidate, compiled
        self._problem = candidate.problem
        self._proxy: SideProxy | None = None
        self._plan: Sequence[Step] = candidate.slow.plan
        self._slots_with_inputs: set[str] = set()
        sizes = self._problem.sizes.headline
        outputs = (buffer for buffer in self._problem.buffers.values() if buffer.role in ("out", "inout"))
        written_bytes = sum(logical_bytes(buffer, sizes) for buffer in outputs)
        self._hashed_at_bench = written_bytes <= MOST_HASHED_BYTES
        self._cpu_s_of_ended_workers = 0.0
        self._until_cpu_s = self._until_s = math.inf

    def close(self) -> None:
        """End the worker; the next run starts another one."""
        if self._proxy is not None:
            self._proxy.worker.kill()
            self._cpu_s_of_ended_workers += self._proxy.worker.cpu_s
        self._proxy = None

    def start_budget(self, seconds: float) -> None:
        """Allow so many seconds of processor time from now on, and `STARVED` times as many by the clock."""
        self._until_cpu_s, self._until_s = self._cpu_s() + seconds, time.perf_counter() + STARVED * seconds

    def out_of_time(self, reserve_s: float = 0.0) -> bool:
        """Whether the budget has ended, or fewer than `reserve_s` of its processor seconds are left."""
        ended = self._cpu_s() >= self._until_cpu_s - reserve_s or time.perf_counter() > self._until_s
        self.cut_off |= ended
        return ended

    def _cpu_s(self) -> float:
        """The processor time of this thread and of all workers so far."""
        worker_cpu_s = self._proxy.worker.cpu_s if self._proxy else 0.0
        return time.thread_time() + self._cpu_s_of_ended_workers + worker_cpu_s

    def unchanged(self, trials: Sequence[Trial]) -> list[CountedRun]:
        """The runs of the whole side in these trials; empty if it fails in one of them."""
        plan, limit_s = self._candidate.slow.plan, time_limits.COUNT_S
        try:
            return [self.run(trial, plan, (), limit_s) for trial in trials]
        except (Ruling, BackendError):
            self.close()
            return []

    def without(
        self, unchanged: CountedRun, plan: Sequence[Step], numbers: tuple[int, ...]
    ) -> CountedRun | None:
        """The same trial with another plan and without the parts with these numbers; None if it fails."""
        limit_s = max(LEAST_RUN_S, RUN_RATIO * unchanged.cpu_s)
        try:
            return self.run(unchanged.trial, plan, numbers, limit_s)
        except (Ruling, BackendError):
            self.close()
            return None

    def run(self, trial: Trial, plan: Sequence[Step], numbers: tuple[int, ...], limit_s: float) -> CountedRun:
        """Run one trial with this plan, without the parts with these numbers.

        Raises:
            Ruling, BackendError: the side failed, or took more than `limit_s` of processor time.
        """
        started_s = self._cpu_s()
        reply = self._reply(trial, plan, numbers, limit_s)
        outputs = arrays_of(self._problem, reply.blobs, trial.sizes, None, sorted(reply.blobs))
        return CountedRun(trial, outputs, reply.body.digest, reply.body.counts, self._cpu_s() - started_s)

    def agreeing_probes(self, trial: Trial) -> frozenset[int]:
        """The numbers of the parts whose probes agreed throughout a trial.

        Raises:
            Ruling, BackendError: the side failed.
        """
        reply = self._reply(trial, self._candidate.slow.plan, (), time_limits.COUNT_S)
        return frozenset(reply.body.agreeing)

    def _reply(
        self, trial: Trial, plan: Sequence[Step], numbers: tuple[int, ...], limit_s: float
    ) -> Reply[CountsAnswer]:
        proxy = self._worker_with(plan)
        if trial.slot not in self._slots_with_inputs:
            proxy.ask(replace(trial.request, on_device=False))
            proxy.wait_for_inputs()
            self._slots_with_inputs.add(trial.slot)
        sample = SAMPLED_BLOCKS if trial.at_bench else 0
        with_outputs = self._hashed_at_bench or not trial.at_bench
        until_cpu_s = proxy.worker.cpu_s + limit_s
        proxy.ask(Count(trial.slot, sample, trial.seed & 0xFFFFFFFF, False, numbers, with_outputs))
        if not proxy.worker.works_for(limit_s, STARVED * limit_s):
            self.cut_off |= proxy.worker.cpu_s < until_cpu_s
            raise Ruling(Outcome.TIMEOUT, "it takes much longer than the whole side", side="slow")
        return proxy.answer(MAX_BLOB_BYTES)

    def _worker_with(self, plan: Sequence[Step]) -> SideProxy:
        """The worker; another one if its plan is not this one."""
        if self._proxy is None or plan != self._plan:
            self.close()
            side = replace(self._candidate.slow, plan=tuple(plan))
            self._proxy = self._runs.loaded_slow(replace(self._candidate, slow=side), self._compiled)
            self._plan, self._slots_with_inputs = plan, set()
        return self._proxy


def fast_outputs(runs: CountedRuns, candidate: Candidate, trial: Trial) -> Outputs | None:
    """The fast side's outputs in a trial; None if the emulator cannot run it."""
    compiled = runs.compiled_fast(candidate)
    if compiled is None:
        return None
    fast = AblatedRuns(runs, replace(candidate, slow=candidate.fast), compiled)
    try:
        return fast.run(trial, candidate.fast.plan, (), time_limits.COUNT_S).outputs
    except (Ruling, BackendError):
        return None
    finally:
        fast.close()
