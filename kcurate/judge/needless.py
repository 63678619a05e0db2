"""Which part of a slow side is needless: without it the outputs stay correct and the side is much faster.

The search runs on the emulator, with parts of the side switched off (`kcurate.mutate.ablations`):

1. each part alone, on every trial of the test sizes and on inputs far outside their range;
2. sets of parts that passed alone, each as large as passes together;
3. pairs of the costliest parts that failed alone;
4. everything that passed, on a few blocks at the bench size.

What passes is a suspect. Its gain is the time that the counts explain with the part, divided by the time
without it. The largest gain comes first; parts whose cost no count shows (barriers, attributes, shared
memory) come last. Example: the second of two equal `__syncthreads();` is a suspect without a gain; a loop
that computes its result eight times, of which one counts, is a suspect with a gain of nearly 8.

A suspect is proved needless by timing or, if nothing is timed, by its gain. Parts that the budget did not
reach are unknown, and then the search is incomplete. Budgets are processor time, so a busy machine finds what
an idle one does. Not covered: timing suspects (`kcurate.judge.made_slow`), runs without parts
(`kcurate.judge.ablated_runs`), the model of time (`kcurate.judge.explained`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from kcurate.backends.base import Compiled, Counts
from kcurate.errors import BackendError
from kcurate.judge.ablated_runs import AblatedRuns, CountedRun, fast_outputs
from kcurate.judge.agreement import Outputs, differs
from kcurate.judge.case import Ruling
from kcurate.judge.counted_runs import CountedRuns
from kcurate.judge.explained import explained_us
from kcurate.judge.trials import Trial, largest_test, timed_trials, trials
from kcurate.mutate.ablations import (
    Ablation,
    ablations,
    code_with_guards,
    code_with_probes,
    combined,
    probe_numbers,
)
from kcurate.records import Candidate, Problem

# A part is needless if the side takes more than 1.25 times as long with it.
LEAST_GAIN = 1.25
# How many suspects are timed, the most parts that are tried, and processor seconds for that: at the test
# sizes (compiling may take as many again before), and at the bench size.
TIMED, TRIED, TRYING_S, BENCH_S = 4, 250, 18.0, 15.0
# Seconds after which probes that do not compile are no longer bisected.
PROBING_S = 5.0
# The share of the seconds at the test sizes that may go to parts alone; the rest is for sets and pairs.
ALONE_SHARE = 0.6
# The most parts that failed alone and of which pairs are tried, costliest first.
PAIRED = 8
# The most sets of parts that pass together; only the costliest is used.
MOST_JOINTS = 4
# Sectors saved by other addresses count if this share of them was scattered: naive code may access columns.
SCATTERED_SHARE = 1 / 3
# A smaller gain at the test sizes means that the part hardly ran there, so correct outputs prove nothing, and
# neither do a few blocks at the bench size. Then only a GPU can tell.
EXERCISED = 1.02


@dataclass(frozen=True)
class Suspect:
    """A part without which the outputs stay correct.

    `gain`: how many times longer the side takes with it, as counts explain at the largest test size or at the
    bench size, whichever is more; None if no count shows it.
    """

    ablation: Ablation
    gain: float | None

    @property
    def text(self) -> str:
        """The part and its line."""
        line = self.ablation.line
        return f"{self.ablation.label} (line {line})" if line else self.ablation.label


@dataclass(frozen=True)
class Search:
    """The suspects, most costly first; the first `TIMED` are timed.

    `untried`: how many parts are unknown. `complete`: no budget ended, so no suspect means nothing is
    needless.
    """

    suspects: tuple[Suspect, ...] = ()
    untried: int = 0
    complete: bool = False


def suspects(runs: CountedRuns, candidate: Candidate, *, counted_only: bool = False) -> Search:
    """Search the slow side for needless parts; not complete if the emulator cannot run it.

    `counted_only`: nothing will be timed, so only parts are tried whose cost counts show.
    """
    assert candidate.problem is not None, "plans are admitted first"
    agreeing = _agreeing_probes(runs, candidate, time.perf_counter() + PROBING_S)
    until_s = time.perf_counter() + TRYING_S
    parts = ablations(candidate.slow, candidate.problem.buffers, agreeing)
    if counted_only:
        parts = tuple(part for part in parts if part.visible_in_counts or part.may_round)
        parts = tuple(part for part in parts if part.numbers or not part.has_fewer_blocks)
    untried, parts = parts[TRIED:], parts[:TRIED]

    def compile_with(numbers: Collection[int]) -> Compiled | None:
        code = code_with_guards(candidate.slow, numbers)
        return runs.compiled_slow(replace(candidate.slow, code=code), candidate)

    all_numbers = [number for part in parts for number in part.numbers]
    compiled, usable, unknown = _compile_most(compile_with, all_numbers, until_s)
    if compiled is None:
        return Search(untried=len(parts) + len(untried))
    untried += tuple(part for part in parts if not unknown.isdisjoint(part.numbers))
    parts = tuple(part for part in parts if usable.issuperset(part.numbers))
    part_search = _PartSearch(runs, candidate, compiled, counted_only=counted_only)
    try:
        search = part_search.search(parts)
    finally:
        part_search.ablated.close()
    untried_count = search.untried + len(untried)
    sorted_suspects = _most_costly_first(search.suspects, counted_only=counted_only)
    return Search(sorted_suspects, untried_count, search.complete and not untried_count)


def _most_costly_first(unsorted: Sequence[Suspect], *, counted_only: bool) -> tuple[Suspect, ...]:
    """The suspects that gain enough by counts, then, unless `counted_only`, those that no count shows."""
    costly = [suspect for suspect in unsorted if suspect.gain is not None and suspect.gain > LEAST_GAIN]
    costly.sort(key=lambda suspect: suspect.gain or 0.0, reverse=True)
    # Several suspects on one line are often variants of one part: all but the first go behind other lines'.
    first_of_line = {suspect.ablation.line: suspect for suspect in reversed(costly)}
    costly.sort(
        key=lambda suspect: (
            suspect.ablation.line is not None and first_of_line[suspect.ablation.line] is not suspect
        )
    )
    unseen = [] if counted_only else [suspect for suspect in unsorted if suspect.gain is None]
    return tuple(costly + unseen)


def _agreeing_probes(runs: CountedRuns, candidate: Candidate, until_s: float) -> frozenset[int]:
    """The numbers of the parts whose probes always agreed at the largest test size; empty if that fails."""

    def compile_with(numbers: Collection[int]) -> Compiled | None:
        code = code_with_probes(candidate.slow, numbers)
        return runs.compiled_slow(replace(candidate.slow, code=code), candidate)

    assert candidate.problem is not None, "plans are admitted first"
    numbers = probe_numbers(candidate.slow)
    if not numbers:
        return frozenset()
    compiled, usable, _ = _compile_most(compile_with, numbers, until_s)
    if compiled is None:
        return frozenset()
    ablated = AblatedRuns(runs, candidate, compiled)
    try:
        largest = _largest_first(candidate.problem, runs.seed)[:1]
        return frozenset(number for trial in largest for number in usable & ablated.agreeing_probes(trial))
    except (Ruling, BackendError):
        return frozenset()
    finally:
        ablated.close()


def _compile_most(
    compile_with: Callable[[Collection[int]], Compiled | None], numbers: Sequence[int], until_s: float
) -> tuple[Compiled | None, frozenset[int], frozenset[int]]:
    """Compile the side with the guards or probes of as many of these parts as compile, found by bisection.

    Returns the binary (None if not even the plain side compiles), the numbers of the parts in it, and those
    not decided when the clock reached `until_s`.
    """
    unknown: set[int] = set()

    def compiling(some: Sequence[int]) -> Iterator[int]:
        if time.perf_counter() > until_s:
            unknown.update(some)
        elif compile_with(some) is not None:
            yield from some
        elif len(some) > 1:
            yield from compiling(some[: len(some) // 2])
            yield from compiling(some[len(some) // 2 :])

    if (compiled := compile_with(numbers)) is not None:
        return compiled, frozenset(numbers), frozenset()
    if compile_with(()) is None:
        return None, frozenset(), frozenset()
    usable = frozenset(compiling(numbers))
    return compile_with(usable), usable, frozenset(unknown)


def _largest_first(problem: Problem, seed: int) -> list[Trial]:
    """All trials at the test sizes; the nominal one of the largest, whose counts give the gains, first."""
    tests = list(trials(problem, seed))
    if not tests:
        return []
    sizes = problem.sizes.test[largest_test(problem)]
    largest = next(trial for trial in tests if trial.sizes == sizes)
    return [largest, *(trial for trial in tests if trial is not largest)]


def _gain_by_counts(unchanged: Counts, without: Counts, part: Ablation) -> float:
    """How many times longer the counts explain with a part than without it.

    Naive code may well access memory with a stride. So if the part only changes addresses, the sectors that
    it saves count only if many of them were scattered.
    """
    saved = unchanged.sectors - without.sectors
    if part.reuses_value and unchanged.scattered - without.scattered < SCATTERED_SHARE * saved:
        unchanged = replace(unchanged, sectors=min(unchanged.sectors, without.sectors))
    return explained_us(unchanged) / max(1e-3, explained_us(without))


def _key(part: Ablation) -> tuple[object, ...]:
    """What distinguishes a part on the emulator, where attributes change nothing."""
    return part.numbers, part.side.plan


class _PartSearch:
    """Tries parts of one slow side, alone and together. `ablated`: its runs, which the caller closes.

    `_gains`: of each part by `_key`, in the latest trial that gave its counts.
    """

    def __init__(
        self, runs: CountedRuns, candidate: Candidate, compiled: Compiled, *, counted_only: bool
    ) -> None:
        assert candidate.problem is not None, "plans are admitted first"
        self.ablated = AblatedRuns(runs, candidate, compiled)
        self.ablated.start_budget(TRYING_S)
        self._counted_only = counted_only
        self._runs, self._candidate, self._problem = runs, candidate, candidate.problem
        self._gains: dict[tuple[object, ...], float] = {}
        self._unchanged_far: list[CountedRun] | None = None

    def search(self, parts: Sequence[Ablation]) -> Search:
        """All parts without which the side stays correct, alone or together, in no order."""
        unchanged = self.ablated.unchanged(_largest_first(self._problem, self._runs.seed))
        if not unchanged:
            return Search(untried=len(parts))

        def passes(part: Ablation) -> bool:
            return self._stays_correct(part, unchanged) and self._stays_correct_far_out(
                part, unchanged[0].trial
            )

        removable, needed, tried = [], [], 0
        for part in parts:
            if self.ablated.out_of_time(reserve_s=(1 - ALONE_SHARE) * TRYING_S):
                break
            tried += 1
            if passes(part):
                removable.append(part)
            elif _key(part) in self._gains:
                needed.append(part)
        costly = sorted(filter(self._may_cost, removable), key=self._gain, reverse=True)
        joint = self._costliest_set(costly, passes)
        pairs = [pair for pair in self._pairs(needed) if passes(pair)]
        joint = self._largest_set([*filter(self._may_cost, pairs)], passes, joint)
        at_bench = tuple(self._suspects_at_bench(removable, pairs, joint))
        return Search(at_bench, len(parts) - tried, not self.ablated.cut_off)

    def _costliest_set(
        self, costly: Sequence[Ablation], passes: Callable[[Ablation], bool]
    ) -> tuple[Ablation, ...]:
        """Of up to `MOST_JOINTS` disjoint sets of parts that pass together, the one with the largest gain.

        The costliest part may need many others to stay, so the sets are found one after the other, each among
        the parts that are in none of the earlier ones.
        """
        best, best_gain, remaining = tuple[Ablation, ...](), 0.0, list(costly)
        for _ in range(MOST_JOINTS):
            joint = self._largest_set(remaining, passes)
            joined = combined(self._candidate.slow, joint) if joint else None
            if joined is None:
                break
            if self._gain(joined) > best_gain:
                best, best_gain = joint, self._gain(joined)
            remaining = [part for part in remaining if part not in joint]
        return best

    def _largest_set(
        self,
        parts: Sequence[Ablation],
        passes: Callable[[Ablation], bool],
        joint: tuple[Ablation, ...] = (),
    ) -> tuple[Ablation, ...]:
        """Extend `joint` greedily by parts that pass together with it: all, else what passes of each half."""
        pending = [tuple(parts)] if parts else []
        while pending and not self.ablated.out_of_time():
            group = pending.pop()
            joined = combined(self._candidate.slow, (*joint, *group))
            if joined is not None and passes(joined):
                joint = (*joint, *group)
            elif len(group) > 1:
                half = len(group) // 2
                pending += [group[half:], group[:half]]
        return joint

    def _pairs(self, needed: Sequence[Ablation]) -> Iterator[Ablation]:
        """Pairs of the `PAIRED` costliest parts, at most one part of each kind per line, until time is up."""
        single = (
            part
            for part in needed
            if (part.visible_in_counts or part.may_round) and part.numbers and not part.is_run
        )
        costly = sorted(single, key=self._gain, reverse=True)
        first_of_line = {(part.line, part.reuses_value): part for part in reversed(costly)}
        distinct = [part for part in costly if first_of_line[part.line, part.reuses_value] is part]
        for pair in combinations(distinct[:PAIRED], 2):
            if self.ablated.out_of_time():
                return
            if (joined := combined(self._candidate.slow, pair)) is not None:
                yield joined

    def _suspects_at_bench(
        self, removable: Sequence[Ablation], pairs: Sequence[Ablation], joint: Sequence[Ablation]
    ) -> Iterator[Suspect]:
        """The parts, pairs and `joint` that stay correct at the bench size or were not reached in time."""
        if not removable and not pairs:
            return
        self.ablated.close()
        self.ablated.start_budget(BENCH_S)
        unchanged = self.ablated.unchanged(timed_trials(self._problem, self._runs.seed)[:1])
        gains_at_tests, correct = dict(self._gains), dict[tuple[object, ...], bool]()

        def out_of_time() -> bool:
            return not unchanged or self.ablated.out_of_time()

        def stays_correct(part: Ablation) -> bool:
            if _key(part) not in correct and not out_of_time():
                correct[_key(part)] = self._stays_correct(part, unchanged)
            return correct.get(_key(part), True)

        def suspect(part: Ablation, *, visible: bool) -> Suspect:
            gain = 1.0 if part.at_bench_only else gains_at_tests.get(_key(part), 1.0)
            exercised = gain > EXERCISED or part.at_bench_only
            if correct.get(_key(part)) and (exercised or not self._counted_only):
                gain = max(gain, self._gain(part))
            return Suspect(part, gain if visible or gain > LEAST_GAIN else None)

        joint = joint if out_of_time() else self._largest_set(joint, stays_correct)
        joined = combined(self._candidate.slow, joint) if len(joint) > 1 else None
        if joined is not None:  # counts may not show what many parts cost together
            yield suspect(joined, visible=False)
        for part in sorted((*removable, *pairs), key=self._gain, reverse=True):
            if stays_correct(part):
                yield suspect(part, visible=part.visible_in_counts)

    def _may_cost(self, part: Ablation) -> bool:
        """Whether a part has a gain, or a cost that counts never show; then it is worth joining with others.

        A part that changes addresses needs a gain: slow addresses are no fault unless they are scattered.
        """
        costs = self._gain(part) > (EXERCISED if part.reuses_value else 1) or not part.visible_in_counts
        return costs and not part.has_fewer_blocks

    def _gain(self, part: Ablation) -> float:
        """The gain of a part in the latest trial that gave its counts; 1 if there is none."""
        return self._gains.get(_key(part), 1.0)

    def _stays_correct_far_out(self, part: Ablation, usual: Trial) -> bool:
        """Whether outputs stay correct without a part on inputs far outside their range too.

        What prevents overflow, as the maximum in a softmax does, changes nothing on usual inputs. Far inputs
        count only if the fast side agrees with the slow side there; else a slow side could claim to need a
        part for them alone.
        """
        if self._unchanged_far is None:
            far = replace(usual, slot="far", variation="nominal/far")
            expected = fast_outputs(self._runs, self._candidate, far)
            unchanged = self.ablated.unchanged([far]) if expected is not None else []
            agree = expected is not None and not any(self._differ(run, expected) for run in unchanged)
            self._unchanged_far = unchanged if agree else []
        return self._stays_correct(part, self._unchanged_far)

    def _stays_correct(self, part: Ablation, unchanged: Sequence[CountedRun]) -> bool:
        """Whether outputs without a part are those of the unchanged side, in all these trials.

        The first trial also gives the part's gain.
        """
        if _key(part) == ((), self._candidate.slow.plan):
            return True  # only attributes differ, which change nothing on the emulator
        return all(self._is_same(run, part, counts=run is unchanged[0]) for run in unchanged)

    def _is_same(self, unchanged: CountedRun, part: Ablation, *, counts: bool) -> bool:
        run = self.ablated.without(unchanged, part.side.plan, part.numbers)
        if run is None:
            return False
        if counts and unchanged.trial.slot != "far":
            self._gains[_key(part)] = _gain_by_counts(unchanged.counts, run.counts, part)
        if unchanged.trial.at_bench:
            # Sampled blocks are compared by digest alone, which differs if they do other work or round
            # otherwise.
            may_differ = part.has_fewer_blocks or part.may_round
            may_differ |= part.reuses_value and not self._counted_only
            return run.digest == unchanged.digest or may_differ
        return not self._differ(unchanged, run.outputs)

    def _differ(self, unchanged: CountedRun, outputs: Outputs) -> bool:
        sizes = unchanged.trial.sizes
        return any(differs(self._problem, sizes, name, unchanged.outputs, outputs) for name in outputs)
