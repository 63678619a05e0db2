"""Both sides on the emulator, compiled to count what they do: evidence about a slow side that was made.

At every test size, and at the bench size with a few blocks of each launch, since a side may be slow there
alone. It runs beside a judgement on a GPU too, where a C++ compiler is installed. There is no evidence where
the emulator cannot run a side; nothing is concluded from that. Not covered: what the counts mean
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
# Blocks of each launch that run at the bench size.
SAMPLED_BLOCKS = 16


@dataclass(frozen=True)
class Counted:
    """What both sides did at each test size (slow, fast), and at the bench size if it could be run.

    `endless`: the slow side ran into a time limit at a test size, where the fast side did not.
    """

    tests: tuple[tuple[Counts, Counts], ...]
    bench: tuple[Counts, Counts] | None = None
    endless: bool = False


class CountedRuns:
    """Workers that compile and count, started when first needed. Call `close` at the end.

    The latest fast side, compiled, and what it did are kept for the next candidate, since many may be made
    from one: all run on inputs of the same secret seed.
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
        """Run both sides; None where the emulator cannot, or is not installed."""
        if any(getattr(candidate, side).language != "cuda" for side in SIDES):
            return None
        key = store.side_key(candidate, "fast")
        compiled = self._compile(candidate, ("slow",) if key in self._compiled_fast else SIDES)
        if compiled is None:
            return None
        self._compiled_fast = {key: compiled.get("fast") or self._compiled_fast[key]}
        chosen = _chosen(candidate, self.seed)
        fast = self._latest.get(key) or self._run(candidate, "fast", self._compiled_fast[key], chosen)
        self._latest = {key: fast} if len(fast.counts) == len(chosen) else {}
        slow = self._run(candidate, "slow", compiled["slow"], chosen)
        if len(fast.counts) < len(chosen) - 1:
            return None
        tests = tuple(zip(slow.counts, fast.counts[: len(chosen) - 1], strict=False))
        endless = slow.timed_out and len(tests) < len(chosen) - 1
        if len(tests) < len(chosen) - 1 and not endless:
            return None
        whole = len(slow.counts) == len(fast.counts) == len(chosen)
        return Counted(tests, (slow.counts[-1], fast.counts[-1]) if whole else None, endless)

    def reach(self, candidate: Candidate) -> list[Mapping[str, int]] | None:
        """The bytes of each buffer, up to the furthest that the slow side read or wrote, at each test size.

        None where the emulator cannot run all of them, or is not installed.
        """
        compiled = self._compile(candidate, ("slow",))
        if compiled is None:
            return None
        chosen = _chosen(candidate, self.seed)[:-1]
        runs = self._run(candidate, "slow", compiled["slow"], chosen, follow=True)
        return runs.reached if len(runs.reached) == len(chosen) else None

    def slow_at_bench(self, candidate: Candidate) -> Counts | None:
        """What the slow side does at the bench size; None where the emulator cannot run it there."""
        compiled = self._compile(candidate, ("slow",))
        if compiled is None:
            return None
        counts = self._run(candidate, "slow", compiled["slow"], _chosen(candidate, self.seed)[-1:]).counts
        return counts[0] if counts else None

    def compiled_fast(self, candidate: Candidate) -> Compiled | None:
        """The fast side, compiled to count; None where it does not compile."""
        key = store.side_key(candidate, "fast")
        if key not in self._compiled_fast:
            compiled = self._compile(candidate, ("fast",))
            self._compiled_fast = {key: compiled["fast"]} if compiled is not None else {}
        return self._compiled_fast.get(key)

    def compiled_slow(self, side: Side, candidate: Candidate) -> Compiled | None:
        """A changed slow side, compiled to count; None where it does not compile."""
        compiled = self._compile(replace(candidate, slow=side), ("slow",))
        return compiled["slow"] if compiled is not None else None

    def loaded_slow(self, candidate: Candidate, compiled: Compiled) -> SideProxy:
        """A worker of its own with the slow side's plan and this binary; the caller kills it.

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
        chosen: Sequence[Trial],
        *,
        follow: bool = False,
    ) -> _Runs:
        """Run one side on each trial in a worker of its own, until one fails."""
        proxy, runs = self._proxy(side), _Runs()
        try:
            proxy.worker.ready()
            proxy.load(candidate, compiled)
            for trial in chosen:
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
        """The sides, compiled to count; None where the emulator is not installed or lacks something."""
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
    """What one side did in its trials, in order, and whether a time limit ended them."""

    counts: list[Counts] = field(default_factory=list)
    reached: list[Mapping[str, int]] = field(default_factory=list)
    timed_out: bool = False


def _chosen(candidate: Candidate, seed: int) -> list[Trial]:
    """The nominal trials at the test sizes, then one at the bench size."""
    assert candidate.problem is not None, "plans are admitted first"
    small = [trial for trial in trials(candidate.problem, seed) if trial.slot.endswith("-nominal")]
    return [*small, timed_trials(candidate.problem, seed)[0]]
