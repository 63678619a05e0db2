"""Which part of a slow side is needless: without it the outputs stay right, and it takes much less time.

On the emulator the side runs without each of its parts (`kcurate.mutate.ablations`), on every trial of the
test sizes and on inputs far outside their range; then without all those at once that it stays right without,
and without pairs of the costliest that it needs alone; last with a few blocks at the bench size. What stays
right is a suspect, those first whose counts explain the most time; those whose cost no count shows (barriers,
attributes, shared memory) come last. A suspect is only proved by times, or, where none are taken, by counts.
What time did not suffice for is unknown: then the search is not complete. Time is that of processors, so that
a busy machine finds what an idle one does. Not covered: timing suspects
(`kcurate.judge.judging`), the model of time (`kcurate.judge.explained`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from kcurate.backends.base import Compiled, Counts
from kcurate.core import time_limits
from kcurate.core.time_limits import STARVED
from kcurate.errors import BackendError
from kcurate.judge.agreement import Outputs, arrays_of, differs
from kcurate.judge.case import Ruling
from kcurate.judge.counted_runs import SAMPLED_BLOCKS, CountedRuns
from kcurate.judge.explained import explained_us
from kcurate.judge.trials import Trial, largest_test, timed_trials, trials
from kcurate.judge.workers.protocol import MAX_BLOB_BYTES
from kcurate.judge.workers.requests import Count, CountsAnswer, Reply
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.mutate.ablations import (
    Ablation,
    ablations,
    code_with_guards,
    code_with_probes,
    combined,
    probe_numbers,
)
from kcurate.problem.outputs import logical_bytes
from kcurate.records import Candidate, Outcome

# A part is needless if the time falls by more than a fifth without it.
LEAST_GAIN = 1.25
# How many suspects are timed, the most parts that are tried, and processor seconds that this takes: at the
# test sizes, after compilation (as many seconds at most), and at the bench size.
TIMED, TRIED, TRYING_S, BENCH_S = 4, 250, 18.0, 15.0
# Seconds after which probes that do not compile are no longer told from others.
PROBING_S = 5.0
# The share of the seconds at the test sizes after which parts are no longer tried alone.
ALONE_SHARE = 0.6
# The most parts that are needed alone and of which pairs are tried, the costliest first.
PAIRED = 8
# The most sets of parts that stay right together, of which the costliest counts.
MOST_JOINTS = 4
# A run may take this many times the processor time of the whole side's, and at least so many seconds.
RUN_RATIO, LEAST_RUN_S = 4.0, 1.0
# Sectors that other places save count if this share of them was scattered: whole columns are natural.
SCATTERED_SHARE = 1 / 3
# What gains less at the test sizes did not run there, so that right outputs prove nothing; and a few blocks
# at the bench size prove little. Then only a GPU can tell.
EXERCISED = 1.02
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
        return f"{self.ablation.label} (line {line})" if line else self.ablation.label


@dataclass(frozen=True)
class Search:
    """The suspects, the most costly first, of which `TIMED` are timed.

    `untried`: parts of which nothing is known.

    `complete`: all was tried that could be, so that no suspect means that nothing is needless.
    """

    suspects: tuple[Suspect, ...] = ()
    untried: int = 0
    complete: bool = False


@dataclass(frozen=True)
class _Whole:
    """What the whole side does in a trial: its outputs or their digest, its counts, its processor time."""

    trial: Trial
    outputs: Outputs
    digest: str
    counts: Counts
    cpu_s: float


def suspects(runs: CountedRuns, candidate: Candidate, *, counted_only: bool = False) -> Search:
    """Look for parts of the slow side that may be needless.

    `counted_only`: those alone that the counts show to be so. Not complete where the emulator cannot run it.
    """
    assert candidate.problem is not None, "plans are admitted first"
    serving = _serving(runs, candidate, time.perf_counter() + PROBING_S, counted_only=counted_only)
    until_s = time.perf_counter() + TRYING_S
    parts = ablations(candidate.slow, candidate.problem.buffers, serving)
    if counted_only:
        parts = tuple(part for part in parts if part.visible_in_counts or part.may_round)
        parts = tuple(part for part in parts if part.numbers or not part.has_fewer_blocks)
    left_over, parts = parts[TRIED:], parts[:TRIED]
    wanted = [number for part in parts for number in part.numbers]

    def compile_with(chosen: Collection[int]) -> Compiled | None:
        return runs.compiled_slow(
            replace(candidate.slow, code=code_with_guards(candidate.slow, chosen)), candidate
        )

    compiled, numbers, unknown = _compiled(compile_with, wanted, until_s)
    if compiled is None:
        return Search(untried=len(parts) + len(left_over))
    left_over += tuple(part for part in parts if not unknown.isdisjoint(part.numbers))
    parts = tuple(part for part in parts if numbers.issuperset(part.numbers))
    runner = _Runner(runs, candidate, compiled, counted_only=counted_only)
    try:
        found = runner.search(parts)
    finally:
        runner.close()
    untried = found.untried + len(left_over)
    suspected = _most_costly(found.suspects, counted_only=counted_only)
    return Search(suspected, untried, found.complete and not untried)


def _most_costly(found: Sequence[Suspect], *, counted_only: bool) -> tuple[Suspect, ...]:
    costly = [one for one in found if one.gain is not None and one.gain > LEAST_GAIN]
    costly.sort(key=lambda one: one.gain or 0.0, reverse=True)
    # Parts that begin in one line are often one part in several ways, which must not hide the others.
    first_of_line = {suspect.ablation.line: suspect for suspect in reversed(costly)}
    costly.sort(key=lambda one: one.ablation.line is not None and first_of_line[one.ablation.line] is not one)
    unseen = [] if counted_only else [one for one in found if one.gain is None]
    return tuple(costly + unseen)


def _serving(
    runs: CountedRuns, candidate: Candidate, until_s: float, *, counted_only: bool
) -> frozenset[int]:
    """The parts whose probes always agreed; none where the emulator cannot run them."""

    def compile_with(chosen: Collection[int]) -> Compiled | None:
        return runs.compiled_slow(
            replace(candidate.slow, code=code_with_probes(candidate.slow, chosen)), candidate
        )

    numbers = probe_numbers(candidate.slow)
    compiled, usable, _ = _compiled(compile_with, numbers, until_s) if numbers else (None, frozenset(), None)
    if compiled is None:
        return frozenset()
    runner = _Runner(runs, candidate, compiled, counted_only=counted_only)
    try:
        return usable & runner.agreeing()
    except (Ruling, BackendError):
        return frozenset()
    finally:
        runner.close()


def _compiled(
    compile_with: Callable[[Collection[int]], Compiled | None], numbers: Sequence[int], until_s: float
) -> tuple[Compiled | None, frozenset[int], frozenset[int]]:
    """The slow side with what the parts with these numbers insert, where that compiles, and their numbers.

    Then the numbers of those that are still unknown at `until_s`.
    """
    unknown: set[int] = set()

    def fitting(chosen: Sequence[int]) -> Iterator[int]:
        if time.perf_counter() > until_s:
            unknown.update(chosen)
        elif compile_with(chosen) is not None:
            yield from chosen
        elif len(chosen) > 1:
            yield from fitting(chosen[: len(chosen) // 2])
            yield from fitting(chosen[len(chosen) // 2 :])

    if (compiled := compile_with(numbers)) is not None:
        return compiled, frozenset(numbers), frozenset()
    if compile_with(()) is None:
        return None, frozenset(), frozenset()
    usable = frozenset(fitting(numbers))
    return compile_with(usable), usable, frozenset(unknown)


def _gain(whole: Counts, without: Counts, part: Ablation) -> float:
    """How many times longer the counts take with a part.

    Naive code may well stride through memory: what other places save in sectors counts only if accesses were
    scattered.
    """
    saved = whole.sectors - without.sectors
    if part.reuses_value and whole.scattered - without.scattered < SCATTERED_SHARE * saved:
        whole = replace(whole, sectors=min(whole.sectors, without.sectors))
    return explained_us(whole) / max(1e-3, explained_us(without))


def _key(part: Ablation) -> tuple[object, ...]:
    """What differs in a side without a part, as counts show it."""
    return part.numbers, part.side.plan


class _Runner:
    """Runs the slow side, whole and without parts, in a worker that is replaced after a failure."""

    def __init__(
        self,
        runs: CountedRuns,
        candidate: Candidate,
        compiled: Compiled,
        *,
        counted_only: bool,
    ) -> None:
        assert candidate.problem is not None, "plans are admitted first"
        self._counted_only = counted_only
        self._runs, self._candidate, self._compiled = runs, candidate, compiled
        self._problem = candidate.problem
        self._proxy: SideProxy | None = None
        self._plan = candidate.slow.plan
        self._ready: set[str] = set()
        buffers = self._problem.buffers.values()
        sizes = self._problem.sizes.headline
        written = sum(logical_bytes(one, sizes) for one in buffers if one.role in ("out", "inout"))
        self._hashed = written <= MOST_HASHED_BYTES
        self._gains: dict[tuple[object, ...], float] = {}
        self._far: list[_Whole] | None = None
        self._ended_cpu_s, self._cut_off = 0.0, False
        self._allow(TRYING_S)

    def close(self) -> None:
        """End the worker."""
        if self._proxy is not None:
            self._proxy.worker.kill()
            self._ended_cpu_s += self._proxy.worker.cpu_s
        self._proxy = None

    def _allow(self, seconds: float) -> None:
        self._until_cpu_s, self._until_s = self._cpu_s() + seconds, time.perf_counter() + STARVED * seconds

    def _over(self, share: float = 1.0) -> bool:
        """Whether this share of the seconds at the test sizes, or all seconds at the bench size, are over."""
        late = self._cpu_s() >= self._until_cpu_s - (1 - share) * TRYING_S
        over = late or time.perf_counter() > self._until_s
        self._cut_off |= over
        return over

    def _cpu_s(self) -> float:
        """The processor time of this thread and of all its workers."""
        return time.thread_time() + self._ended_cpu_s + (self._proxy.worker.cpu_s if self._proxy else 0.0)

    def search(self, parts: Sequence[Ablation]) -> Search:
        """The parts without which the side stays right, alone or together; `suspects` has all of them."""
        tests = trials(self._problem, self._runs.seed)
        whole = self._whole(self._largest_first([*tests]))
        if not whole:
            return Search(untried=len(parts))
        right, needed, tried = [], [], 0
        for part in parts:
            if self._over(ALONE_SHARE):
                break
            tried += 1
            if self._stays_right(part, whole) and self._right_far_out(part, whole[0].trial):
                right.append(part)
            elif _key(part) in self._gains:
                needed.append(part)

        def passes(part: Ablation) -> bool:
            return self._stays_right(part, whole) and self._right_far_out(part, whole[0].trial)

        costly = sorted(filter(self._costs, right), key=self._gain, reverse=True)
        joint = self._best_of(costly, passes)
        pairs = [pair for pair in self._pairs(needed) if passes(pair)]
        joint = self._greedily([*filter(self._costs, pairs)], passes, joint)
        found = tuple(self._at_bench(right, pairs, joint))
        return Search(found, len(parts) - tried, not self._cut_off)

    def agreeing(self) -> frozenset[int]:
        """The parts whose probes always agreed in the trial in which parts are counted.

        Raises:
            Ruling, BackendError: the side does not run.
        """
        chosen = self._largest_first([*trials(self._problem, self._runs.seed)])[:1]
        return frozenset(
            number
            for trial in chosen
            for number in self._reply(trial, self._plan, (), time_limits.COUNT_S).body.agreeing
        )

    def _largest_first(self, tests: Sequence[Trial]) -> list[Trial]:
        """The nominal trial of the largest test size, in which parts are counted, then all others."""
        if not tests:
            return []
        sizes = self._problem.sizes.test[largest_test(self._problem)]
        largest = next(trial for trial in tests if trial.sizes == sizes)
        return [largest, *(trial for trial in tests if trial is not largest)]

    def _best_of(
        self, costly: Sequence[Ablation], passes: Callable[[Ablation], bool]
    ) -> tuple[Ablation, ...]:
        """Of several sets of parts that pass together, the one that costs the most.

        The costliest part may need many others, so each further set is one of what those before left.
        """
        best, most, left = tuple[Ablation, ...](), 0.0, list(costly)
        for _ in range(MOST_JOINTS):
            joint = self._greedily(left, passes)
            joined = combined(self._candidate.slow, joint) if joint else None
            if joined is None:
                break
            if self._gain(joined) > most:
                best, most = joint, self._gain(joined)
            left = [part for part in left if part not in joint]
        return best

    def _greedily(
        self,
        parts: Sequence[Ablation],
        passes: Callable[[Ablation], bool],
        kept: tuple[Ablation, ...] = (),
    ) -> tuple[Ablation, ...]:
        """Parts that pass together, with those `kept` so far: all, else what passes of each half."""
        left = [tuple(parts)] if parts else []
        while left and not self._over():
            chosen = left.pop()
            joined = combined(self._candidate.slow, (*kept, *chosen))
            if joined is not None and passes(joined):
                kept = (*kept, *chosen)
            elif len(chosen) > 1:
                half = len(chosen) // 2
                left += [chosen[half:], chosen[:half]]
        return kept

    def _pairs(self, needed: Sequence[Ablation]) -> Iterator[Ablation]:
        """Pairs of the parts that cost the most, one of each kind a line, until the time is over."""
        single = (
            part
            for part in needed
            if (part.visible_in_counts or part.may_round) and part.numbers and not part.is_run
        )
        costly = sorted(single, key=self._gain, reverse=True)
        of_places = {(part.line, part.reuses_value): part for part in reversed(costly)}
        chosen = [part for part in costly if of_places[part.line, part.reuses_value] is part][:PAIRED]
        for pair in combinations(chosen, 2):
            if self._over():
                return
            if (joined := combined(self._candidate.slow, pair)) is not None:
                yield joined

    def _at_bench(
        self, right: Sequence[Ablation], pairs: Sequence[Ablation], joint: Sequence[Ablation]
    ) -> Iterator[Suspect]:
        """Those that stay right at the bench size, or that no time was left for; `joint`: some."""
        if not right and not pairs:
            return
        self.close()
        self._allow(BENCH_S)
        whole = self._whole(timed_trials(self._problem, self._runs.seed)[:1])
        at_tests, tried = dict(self._gains), dict[tuple[object, ...], bool]()

        def over() -> bool:
            return not whole or self._over()

        def stays(part: Ablation) -> bool:
            if _key(part) not in tried and not over():
                tried[_key(part)] = self._stays_right(part, whole)
            return tried.get(_key(part), True)

        def suspect(part: Ablation, *, seen: bool) -> Suspect:
            gain = 1.0 if part.at_bench_only else at_tests.get(_key(part), 1.0)
            exercised = gain > EXERCISED or part.at_bench_only
            if tried.get(_key(part)) and (exercised or not self._counted_only):
                gain = max(gain, self._gain(part))
            return Suspect(part, gain if seen or gain > LEAST_GAIN else None)

        joint = joint if over() else self._greedily(joint, stays)
        joined = combined(self._candidate.slow, joint) if len(joint) > 1 else None
        if joined is not None:  # counts may not show what many parts cost together
            yield suspect(joined, seen=False)
        for part in sorted((*right, *pairs), key=self._gain, reverse=True):
            if stays(part):
                yield suspect(part, seen=part.visible_in_counts)

    def _costs(self, part: Ablation) -> bool:
        """Whether a part may cost something that counts show, or something that they never show.

        What other places cost is not the side's fault unless they are scattered, so counts must show that.
        """
        gain = self._gain(part)
        costs = gain > (EXERCISED if part.reuses_value else 1) or not part.visible_in_counts
        return costs and not part.has_fewer_blocks

    def _gain(self, part: Ablation) -> float:
        """How many times longer the counts take with a part, in the latest trial that counted it; else 1."""
        return self._gains.get(_key(part), 1.0)

    def _right_far_out(self, part: Ablation, usual: Trial) -> bool:
        """Whether the side without a part stays right on inputs far outside their range too.

        What keeps a number from overflowing, as the maximum in a softmax, changes nothing on usual inputs.
        Such inputs count only if the fast side agrees there: else a slow side could treat them by itself.
        """
        if self._far is None:
            self._far = []
            far = replace(usual, slot="far", variation="nominal/far")
            expected = self._of_fast(far)
            whole = self._whole([far]) if expected is not None else []
            if expected is not None and not any(self._differ(one, expected) for one in whole):
                self._far = whole
        return self._stays_right(part, self._far)

    def _of_fast(self, trial: Trial) -> Outputs | None:
        """The fast side's outputs in a trial; None where the emulator cannot run it."""
        compiled = self._runs.compiled_fast(self._candidate)
        if compiled is None:
            return None
        in_its_place = replace(self._candidate, slow=self._candidate.fast)
        runner = _Runner(self._runs, in_its_place, compiled, counted_only=True)
        try:
            return runner._count(trial, in_its_place.slow.plan, (), time_limits.COUNT_S)[0]
        except (Ruling, BackendError):
            return None
        finally:
            runner.close()

    def _whole(self, chosen: Sequence[Trial]) -> list[_Whole]:
        """What the whole side does in these trials; nothing where it cannot run one of them."""
        answers = []
        try:
            for trial in chosen:
                started_s = self._cpu_s()
                answer = self._count(trial, self._candidate.slow.plan, (), time_limits.COUNT_S)
                answers.append(_Whole(trial, *answer, self._cpu_s() - started_s))
        except (Ruling, BackendError):
            self.close()
            return []
        return answers

    def _stays_right(self, part: Ablation, wholes: Sequence[_Whole]) -> bool:
        """Whether the side without a part gives the whole side's outputs in each of these trials.

        The first one, unless inputs are far outside their range, tells what the part costs. Attributes change
        nothing on the emulator.
        """
        whole_side = (), self._candidate.slow.plan
        return _key(part) == whole_side or all(
            self._same(whole, part, counts=whole is wholes[0]) for whole in wholes
        )

    def _same(self, whole: _Whole, part: Ablation, *, counts: bool) -> bool:
        limit_s = max(LEAST_RUN_S, RUN_RATIO * whole.cpu_s)
        try:
            outputs, digest, without = self._count(whole.trial, part.side.plan, part.numbers, limit_s)
        except (Ruling, BackendError):
            self.close()
            return False
        if counts and whole.trial.slot != "far":
            self._gains[_key(part)] = _gain(whole.counts, without, part)
        if whole.trial.at_bench:
            loose = part.has_fewer_blocks or part.may_round or (part.reuses_value and not self._counted_only)
            return digest == whole.digest or loose
        return not self._differ(whole, outputs)

    def _differ(self, whole: _Whole, outputs: Outputs) -> bool:
        sizes = whole.trial.sizes
        return any(differs(self._problem, sizes, name, whole.outputs, outputs) for name in outputs)

    def _count(
        self, trial: Trial, plan: object, numbers: tuple[int, ...], limit_s: float
    ) -> tuple[Outputs, str, Counts]:
        reply = self._reply(trial, plan, numbers, limit_s)
        outputs = arrays_of(self._problem, reply.blobs, trial.sizes, None, sorted(reply.blobs))
        return outputs, reply.body.digest, reply.body.counts

    def _reply(
        self, trial: Trial, plan: object, numbers: tuple[int, ...], limit_s: float
    ) -> Reply[CountsAnswer]:
        if self._proxy is None or plan != self._plan:
            self.close()
            side = replace(self._candidate.slow, plan=plan)  # type: ignore[arg-type]
            self._proxy = self._runs.loaded_slow(replace(self._candidate, slow=side), self._compiled)
            self._plan, self._ready = side.plan, set()
        proxy = self._proxy
        if trial.slot not in self._ready:
            proxy.ask(replace(trial.request, on_device=False))
            proxy.wait_for_inputs()
            self._ready.add(trial.slot)
        sample = SAMPLED_BLOCKS if trial.at_bench else 0
        wanted = self._hashed or not trial.at_bench
        until_cpu_s = proxy.worker.cpu_s + limit_s
        proxy.ask(Count(trial.slot, sample, trial.seed & 0xFFFFFFFF, False, numbers, wanted))
        if not proxy.worker.works_for(limit_s, STARVED * limit_s):
            self._cut_off |= proxy.worker.cpu_s < until_cpu_s
            raise Ruling(Outcome.TIMEOUT, "it takes much longer than the whole side", side="slow")
        return proxy.answer(MAX_BLOB_BYTES)
