"""Which part of a slow side is needless: without it the outputs stay right, and it takes much less time.

On the emulator the side runs without each of its parts (`kcurate.mutate.ablations`), on every trial of the
test sizes, on inputs far outside their range, and with a few blocks at the bench size. What stays right is a
suspect, those first whose counts explain the most time; those whose cost no count shows (barriers,
attributes, shared memory) come last. A suspect is only proved by times, or, where none are taken, by counts.
Not covered: timing suspects (`kcurate.judge.judging`), the model of time (`kcurate.judge.explained`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kcurate.backends.base import Compiled, Counts
from kcurate.errors import BackendError
from kcurate.judge.agreement import Outputs, arrays_of, differs
from kcurate.judge.case import Ruling
from kcurate.judge.counted_runs import SAMPLED_BLOCKS, CountedRuns
from kcurate.judge.explained import explained_us
from kcurate.judge.trials import Trial, largest_test, timed_trials, trials
from kcurate.judge.workers.requests import Count
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.mutate.ablations import Ablation, ablations, guarded
from kcurate.problem.outputs import logical_bytes
from kcurate.records import Candidate

# A part is needless if the time falls by more than a fifth without it.
LEAST_GAIN = 1.25
# The most suspects that are timed, parts that are tried, and seconds that this takes: at the test sizes,
# compilation included, and at the bench size.
TIMED, TRIED, TRYING_S, BENCH_S = 4, 150, 20.0, 15.0
# A run may take this many times as long as that of the whole side, and at least so many seconds.
RUN_RATIO, LEAST_RUN_S = 4.0, 1.0
# Sectors that other places save count if this share of them was scattered: whole columns are natural.
SCATTERED_SHARE = 1 / 3
# The most parts that run at the bench size, those first that cost the most at a test size.
BENCHED = 12
# Outputs of more bytes are not hashed at the bench size.
MOST_HASHED_BYTES = 1 << 28


@dataclass(frozen=True)
class Suspect:
    """A part without which the side stays right, and how many times longer its counts take with it, at the
    largest test size or the bench size (None: no count shows it)."""

    ablation: Ablation
    gain: float | None

    @property
    def text(self) -> str:
        """The part and its line."""
        line = self.ablation.line
        return f"{self.ablation.what} (line {line})" if line else self.ablation.what


@dataclass(frozen=True)
class _Whole:
    """What the whole side does in a trial: its outputs or their digest, its counts, and how long it runs."""

    trial: Trial
    outputs: Outputs
    digest: str
    counts: Counts
    wall_s: float


def suspects(runs: CountedRuns, candidate: Candidate, *, counted_only: bool = False) -> tuple[Suspect, ...]:
    """At most `TIMED` parts of the slow side that may be needless, the most costly first.

    `counted_only`: those alone that the counts show to be so. Empty where the emulator cannot run the side.
    """
    assert candidate.problem is not None, "plans are admitted first"
    until_s = time.perf_counter() + TRYING_S
    parts = ablations(candidate.slow, candidate.problem.buffers)[:TRIED]
    if counted_only:
        parts = tuple(part for part in parts if part.counted and not part.regridded)
    made = _compiled(runs, candidate, [part.number for part in parts if part.number], until_s)
    if made is None:
        return ()
    compiled, numbers = made
    parts = tuple(part for part in parts if not part.number or part.number in numbers)
    runner = _Runner(runs, candidate, compiled, until_s, counted_only=counted_only)
    try:
        found = [*runner.suspects(parts)]
    finally:
        runner.close()
    costly = [one for one in found if one.gain is not None and one.gain > LEAST_GAIN]
    costly.sort(key=lambda one: one.gain or 0.0, reverse=True)
    # Parts that begin in one line are often one part in several ways, which must not hide the others.
    first_of_line = {suspect.ablation.line: suspect for suspect in reversed(costly)}
    costly.sort(key=lambda one: one.ablation.line is not None and first_of_line[one.ablation.line] is not one)
    unseen = [] if counted_only else [one for one in found if one.gain is None]
    return tuple((costly + unseen)[:TIMED])


def _compiled(
    runs: CountedRuns, candidate: Candidate, numbers: Sequence[int], until_s: float
) -> tuple[Compiled, frozenset[int]] | None:
    """The slow side with a guard around each part where that compiles, and the numbers of these parts.

    What is still unknown at `until_s` has none.
    """

    def compile_with(chosen: Collection[int]) -> Compiled | None:
        return runs.compiled_slow(
            replace(candidate.slow, code=guarded(candidate.slow.code, chosen)), candidate
        )

    def fitting(chosen: Sequence[int]) -> Iterator[int]:
        if time.perf_counter() > until_s:
            return
        if compile_with(chosen) is not None:
            yield from chosen
        elif len(chosen) > 1:
            yield from fitting(chosen[: len(chosen) // 2])
            yield from fitting(chosen[len(chosen) // 2 :])

    if (compiled := compile_with(numbers)) is not None:
        return compiled, frozenset(numbers)
    if compile_with(()) is None:
        return None
    usable = frozenset(fitting(numbers))
    compiled = compile_with(usable)
    return (compiled, usable) if compiled is not None else None


def _gain(whole: Counts, without: Counts, part: Ablation) -> float:
    """How many times longer the counts take with a part.

    Naive code may well stride through memory: what other places save in sectors counts only if accesses were
    scattered.
    """
    saved = whole.sectors - without.sectors
    if part.replaced and whole.scattered - without.scattered < SCATTERED_SHARE * saved:
        whole = replace(whole, sectors=min(whole.sectors, without.sectors))
    return explained_us(whole) / max(1e-3, explained_us(without))


class _Runner:
    """Runs the slow side, whole and without parts, in a worker that is replaced after a failure."""

    def __init__(
        self,
        runs: CountedRuns,
        candidate: Candidate,
        compiled: Compiled,
        until_s: float,
        *,
        counted_only: bool,
    ) -> None:
        assert candidate.problem is not None, "plans are admitted first"
        self._counted_only = counted_only
        self._runs, self._candidate, self._compiled, self._until_s = runs, candidate, compiled, until_s
        self._problem = candidate.problem
        self._proxy: SideProxy | None = None
        self._plan = candidate.slow.plan
        self._ready: set[str] = set()
        buffers = self._problem.buffers.values()
        sizes = self._problem.sizes.headline
        written = sum(logical_bytes(one, sizes) for one in buffers if one.role in ("out", "inout"))
        self._hashed = written <= MOST_HASHED_BYTES

    def close(self) -> None:
        """End the worker."""
        if self._proxy is not None:
            self._proxy.worker.kill()
        self._proxy = None

    def suspects(self, parts: Sequence[Ablation]) -> Iterator[Suspect]:
        """The parts without which the side stays right in each trial, and at the bench size if it runs."""
        tests = [*trials(self._problem, self._runs.seed)]
        if not tests:
            return
        counted: dict[int, tuple[Counts, Counts]] = {}
        largest = self._problem.sizes.test[largest_test(self._problem)]
        slot = next(trial.slot for trial in tests if trial.sizes == largest)
        left = self._staying_right(list(enumerate(parts)), tests, slot, counted)
        left = self._right_far_out(left, largest)
        if not left:
            return
        self.close()
        left.sort(key=lambda item: _gain(*counted[item[0]], item[1]), reverse=True)
        left = left[:BENCHED]
        self._until_s = time.perf_counter() + BENCH_S
        bench = timed_trials(self._problem, self._runs.seed)[0]
        at_bench: dict[int, tuple[Counts, Counts]] = {}
        for number, part in self._staying_right(left, [bench], bench.slot, at_bench):
            pairs = [runs[number] for runs in (counted, at_bench) if number in runs]
            gain = max(_gain(whole, without, part) for whole, without in pairs)
            yield Suspect(part, gain if part.counted else None)

    def _right_far_out(
        self, parts: Sequence[tuple[int, Ablation]], sizes: Mapping[str, int]
    ) -> list[tuple[int, Ablation]]:
        """Those of the parts without which the side stays right on inputs far outside their range too.

        What keeps a number from overflowing, as the maximum in a softmax, changes nothing on usual inputs.
        Such inputs count only if the fast side agrees there: else a slow side could treat them by itself.
        """
        usual = (trial for trial in trials(self._problem, self._runs.seed) if trial.sizes == sizes)
        far = replace(next(usual), slot="far", variation="nominal/far")
        if not parts or (expected := self._of_fast(far)) is None:
            return [*parts]
        return self._staying_right(parts, [far], "", {}, expected)

    def _of_fast(self, trial: Trial) -> Outputs | None:
        """The fast side's outputs in a trial; None where the emulator cannot run it."""
        compiled = self._runs.compiled_fast(self._candidate)
        if compiled is None:
            return None
        in_its_place = replace(self._candidate, slow=self._candidate.fast)
        runner = _Runner(self._runs, in_its_place, compiled, self._until_s, counted_only=True)
        try:
            return runner._count(trial, in_its_place.slow.plan, 0, None)[0]
        except (Ruling, BackendError):
            return None
        finally:
            runner.close()

    def _staying_right(
        self,
        parts: Sequence[tuple[int, Ablation]],
        chosen: Sequence[Trial],
        counted_in: str,
        counted: dict[int, tuple[Counts, Counts]],
        expected: Outputs | None = None,
    ) -> list[tuple[int, Ablation]]:
        """The parts without which the side gives the whole side's outputs in each of these trials.

        `counted` gets what the side did with and without each part in the trial `counted_in`. At the bench
        size the side need not run, nor where outputs are `expected`; without these a trial tells nothing.
        """
        optional = chosen[0].at_bench or expected is not None
        known: dict[str, _Whole] = {}
        try:
            for trial in chosen:
                started = time.perf_counter()
                answer = self._count(trial, self._candidate.slow.plan, 0, None)
                known[trial.slot] = _Whole(trial, *answer, time.perf_counter() - started)
        except (Ruling, BackendError):
            self.close()
            return [*parts] if optional else []
        if expected is not None and any(self._differ(whole, expected) for whole in known.values()):
            return [*parts]
        left = []
        for number, part in parts:
            if time.perf_counter() > self._until_s:
                break
            if all(self._same(whole, part, number, counted_in, counted) for whole in known.values()):
                left.append((number, part))
        return left

    def _same(
        self,
        whole: _Whole,
        part: Ablation,
        number: int,
        counted_in: str,
        counted: dict[int, tuple[Counts, Counts]],
    ) -> bool:
        limit_s = max(LEAST_RUN_S, RUN_RATIO * whole.wall_s)
        try:
            outputs, digest, counts = self._count(whole.trial, part.side.plan, part.number, limit_s)
        except (Ruling, BackendError):
            self.close()
            return False
        if whole.trial.slot == counted_in:
            counted[number] = whole.counts, counts
        if whole.trial.at_bench:
            return digest == whole.digest or part.regridded or (part.replaced and not self._counted_only)
        return not self._differ(whole, outputs)

    def _differ(self, whole: _Whole, outputs: Outputs) -> bool:
        sizes = whole.trial.sizes
        return any(differs(self._problem, sizes, name, whole.outputs, outputs) for name in outputs)

    def _count(
        self, trial: Trial, plan: object, number: int, limit_s: float | None
    ) -> tuple[Outputs, str, Counts]:
        if self._proxy is None or plan != self._plan:
            self.close()
            side = replace(self._candidate.slow, plan=plan)  # type: ignore[arg-type]
            self._proxy = self._runs.loaded_slow(replace(self._candidate, slow=side), self._compiled)
            self._plan, self._ready = side.plan, set()
        proxy = self._proxy
        usual_s = proxy.timeout_s
        if trial.slot not in self._ready:
            proxy.ask(replace(trial.request, on_device=False))
            proxy.wait_for_inputs()
            self._ready.add(trial.slot)
        sample = SAMPLED_BLOCKS if trial.at_bench else 0
        wanted = self._hashed or not trial.at_bench
        try:
            proxy.timeout_s = limit_s or usual_s
            reply = proxy.call(Count(trial.slot, sample, trial.seed & 0xFFFFFFFF, False, number, wanted))
        finally:
            proxy.timeout_s = usual_s
        names = sorted(reply.blobs)
        outputs = arrays_of(self._problem, reply.blobs, trial.sizes, None, names)
        return outputs, reply.body.digest, reply.body.counts
