"""Runs both sides on the emulator, compiled to count operations: evidence about a slow side that was made.

They run at every test size, and with a few blocks of each launch at the bench size, since a side may be slow
only there. This also works during a judgement on a GPU, if a C++ compiler is installed. If the emulator
cannot run a side there is no evidence, and nothing follows from that. Not covered: what the counts mean
(`kcurate.judge.made_slow_limits`), counting (`kcurate/backends/emulator/runtime/counting.h`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kcurate.backends.base import Compiled, Counts
from kcurate.core import store, time_limits
from kcurate.errors import BackendError, MissingDependencyError
from kcurate.judge.case import Ruling
from kcurate.judge.trials import Trial, timed_trials, trials
from kcurate.judge.workers.compiling import CompileWorkers, request_of
from kcurate.judge.workers.nursery import Nursery, Role
from kcurate.judge.workers.requests import Count
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.records import SIDES, Candidate, Outcome, Side
from kcurate.records.pair import SideName

BACKEND = "emulator"
# Blocks of each launch that run at the bench size, where a full run takes too long.
SAMPLED_BLOCKS = 16


@dataclass(frozen=True)
class Counted:
    """The counts (slow, fast) of each test size, and of the bench size if both sides ran there.

    `endless`: the slow side ran into a time limit at a test size; the fast side did not.
    """

    tests: tuple[tuple[Counts, Counts], ...]
    bench: tuple[Counts, Counts] | None = None
    endless: bool = False


class CountedRuns:
    """Workers that compile and count, started when first needed. Call `close` at the end.

    The latest fast side's binary and counts are cached, since many slow sides may be made from one fast side.
    All candidates run on inputs of the same secret `seed`.
    """

    def __init__(self) -> None:
        self._nursery: Nursery | None = None
        self._compilers: CompileWorkers | None = None
        self._missing = False
        self.seed = secrets.randbits(48)
        self._latest: dict[str, _Runs] = {}
        self._compiled_fast: dict[str, Compiled] = {}

    def close(self) -> None:
        """End all workers."""
        if self._compilers is not None:
            self._compilers.close()
        if self._nursery is not None:
            self._nursery.close()

    def count(self, candidate: Candidate) -> Counted | None:
        """Count both sides' operations; None if the emulator cannot run them or is not installed."""
        if any(getattr(candidate, side).language != "cuda" for side in SIDES):
            return None
        key = store.side_key(candidate, "fast")
        compiled = self._compile(candidate, ("slow",) if key in self._compiled_fast else SIDES)
        if compiled is None:
            return None
        self._compiled_fast = {key: compiled.get("fast") or self._compiled_fast[key]}
        series = _counted_trials(candidate, self.seed)
        fast = self._latest.get(key) or self._run(candidate, "fast", self._compiled_fast[key], series)
        self._latest = {key: fast} if len(fast.counts) == len(series) else {}
        slow = self._run(candidate, "slow", compiled["slow"], series)
        if len(fast.counts) < len(series) - 1:
            return None
        tests = tuple(zip(slow.counts, fast.counts[: len(series) - 1], strict=False))
        endless = slow.timed_out and len(tests) < len(series) - 1
        if len(tests) < len(series) - 1 and not endless:
            return None
        both_at_bench = len(slow.counts) == len(fast.counts) == len(series)
        return Counted(tests, (slow.counts[-1], fast.counts[-1]) if both_at_bench else None, endless)

    def reach(self, candidate: Candidate) -> list[Mapping[str, int]] | None:
        """For each test size, the end of the furthest access of the slow side in each buffer, in bytes.

        None if the emulator cannot run all sizes or is not installed.
        """
        compiled = self._compile(candidate, ("slow",))
        if compiled is None:
            return None
        series = _counted_trials(candidate, self.seed)[:-1]
        runs = self._run(candidate, "slow", compiled["slow"], series, follow=True)
        return runs.reached if len(runs.reached) == len(series) else None

    def slow_at_bench(self, candidate: Candidate) -> Counts | None:
        """The counts of the slow side at the bench size; None if the emulator cannot run it there."""
        compiled = self._compile(candidate, ("slow",))
        if compiled is None:
            return None
        counts = self._run(
            candidate, "slow", compiled["slow"], _counted_trials(candidate, self.seed)[-1:]
        ).counts
        return counts[0] if counts else None

    def compiled_fast(self, candidate: Candidate) -> Compiled | None:
        """The fast side's binary, compiled to count; None if it does not compile."""
        key = store.side_key(candidate, "fast")
        if key not in self._compiled_fast:
            compiled = self._compile(candidate, ("fast",))
            self._compiled_fast = {key: compiled["fast"]} if compiled is not None else {}
        return self._compiled_fast.get(key)

    def compiled_slow(self, side: Side, candidate: Candidate) -> Compiled | None:
        """The binary of `side` in the slow side's place, compiled to count; None if it does not compile."""
        compiled = self._compile(replace(candidate, slow=side), ("slow",))
        return compiled["slow"] if compiled is not None else None

    def loaded_slow(self, candidate: Candidate, compiled: Compiled) -> SideProxy:
        """A new worker with the slow side's plan and this binary; the caller kills it.

        Raises:
            Ruling, BackendError: it does not load.
        """
        proxy = self._proxy("slow")
        try:
            proxy.worker.ready()
            proxy.load(candidate, compiled)
        except BaseException:
            proxy.worker.kill()
            raise
        return proxy

    def _proxy(self, side: SideName) -> SideProxy:
        assert self._nursery is not None, "compiled first"
        return SideProxy(side, self._nursery.fork(Role("run", BACKEND)), time_limits.COUNT_S)

    def _run(
        self,
        candidate: Candidate,
        side: SideName,
        compiled: Compiled,
        series: Sequence[Trial],
        *,
        follow: bool = False,
    ) -> _Runs:
        """Run one side on each trial in a new worker, until one fails; `follow`: also measure reach."""
        proxy, runs = self._proxy(side), _Runs()
        try:
            proxy.worker.ready()
            proxy.load(candidate, compiled)
            for trial in series:
                proxy.ask(replace(trial.request, on_device=False))
                proxy.wait_for_inputs()
                sample = SAMPLED_BLOCKS if trial.at_bench else 0
                answer = proxy.call(Count(trial.slot, sample, trial.seed & 0xFFFFFFFF, follow)).body
                runs.counts.append(answer.counts)
                runs.reached.append(answer.reached)
        except Ruling as failed:
            runs.timed_out = failed.outcome is Outcome.TIMEOUT
        except BackendError:
            pass
        finally:
            proxy.worker.kill()
        return runs

    def _compile(self, candidate: Candidate, sides: Sequence[SideName]) -> dict[SideName, Compiled] | None:
        """The sides, compiled to count; None if one does not compile or the emulator is not installed."""
        if self._missing:
            return None
        try:
            if self._nursery is None:
                self._nursery = Nursery(BACKEND)
                self._compilers = CompileWorkers(self._nursery, Role("compile", BACKEND, 0, {}))
            assert self._compilers is not None
            answers = self._compilers.compile([request_of(candidate, side, examine=True) for side in sides])
        except MissingDependencyError:
            self._missing = True
            return None
        except BackendError:
            return None
        compiled = {
            side: answer for side, answer in zip(sides, answers, strict=True) if isinstance(answer, Compiled)
        }
        return compiled if len(compiled) == len(sides) else None


@dataclass
class _Runs:
    """The counts and reach of one side by trial, and whether a time limit ended them early."""

    counts: list[Counts] = field(default_factory=list)
    reached: list[Mapping[str, int]] = field(default_factory=list)
    timed_out: bool = False


def _counted_trials(candidate: Candidate, seed: int) -> list[Trial]:
    """The nominal trials at the test sizes, then one at the bench size."""
    assert candidate.problem is not None, "plans are admitted first"
    small = [trial for trial in trials(candidate.problem, seed) if trial.slot.endswith("-nominal")]
    return [*small, timed_trials(candidate.problem, seed)[0]]
