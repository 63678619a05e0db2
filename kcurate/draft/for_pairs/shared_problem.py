"""One problem for both sides of a pair: the admitted problem of one kernel, with a plan for the other.

The emulator judges both sides before the pair gets the problem. Not covered: drafting a problem (`stage`),
the other kernel's plan (`other_kernel`), which kernels make a pair (`kcurate.extract`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from kcurate.core import store
from kcurate.core.notes import Note, silent
from kcurate.core.workspace import Workspace
from kcurate.draft.for_pairs.other_kernel import PairKernel, counterpart, launches_of, shown_launch
from kcurate.draft.trying import admit
from kcurate.errors import InputError
from kcurate.problem.size_gaps import divisible, mended
from kcurate.records import SIDES, Candidate, Kernel, Outcome, Problem, Verdict

Judging = Callable[[Candidate], Verdict]


class PairOutcome(StrEnum):
    """Outcome of a pair without a problem.

    `admitted`: both sides are equal on the emulator. `refused`: they are not.
    """

    ADMITTED = "admitted"
    NO_PROBLEM = "no_admitted_problem"
    NO_MATCH = "parameters_differ"
    REFUSED = "refused"


@dataclass(frozen=True)
class Given:
    """What became of a pair: the pair with its problem (None: none fits), why, the verdict if refused."""

    outcome: PairOutcome
    why: str = ""
    pair: Candidate | None = None
    verdict: Verdict | None = None


def give(pair: Candidate, slow: PairKernel, fast: PairKernel, judging: Judging) -> Given:
    """The pair with an admitted problem of either side that both sides solve alike.

    The stricter problem is tried first; else one recorded from a running program, else that of a kernel that
    host code launches, else the slow side's.
    """
    worst = Given(PairOutcome.NO_PROBLEM, "neither kernel has an admitted problem")
    known_problems = [
        (known, half, other) for half, other in ((slow, fast), (fast, slow)) if (known := half.known())
    ]
    known_problems.sort(
        key=lambda halves: (halves[0].origin != "captured", not halves[1].kernel.launch_sites)
    )
    if len(known_problems) == len(SIDES) and admit.stricter(
        *(halves[0].problem for halves in known_problems[::-1])
    ):
        known_problems.reverse()
    for known, owner, other in known_problems:
        side = counterpart(known, owner, other)
        if isinstance(side, str):
            worst = worst if worst.outcome is PairOutcome.REFUSED else Given(PairOutcome.NO_MATCH, side)
            continue
        mine = known.side.side(owner.code)
        tried = replace(
            pair,
            problem=known.problem,
            origin=replace(pair.origin, problem=known.origin),
            slow=mine if owner is slow else side,
            fast=side if owner is slow else mine,
        )
        whole = tried
        tried, verdict = judged(whole, judging)
        if verdict.outcome is Outcome.MISMATCH and known.origin != "known":
            even = divisible(known.problem, {"slow": whole.slow, "fast": whole.fast})
            if even != known.problem:
                tried, verdict = judged(replace(whole, problem=even), judging)
        if verdict.outcome is Outcome.CORRECT:
            return Given(PairOutcome.ADMITTED, "", tried)
        if worst.outcome is not PairOutcome.REFUSED:
            how = ", ".join(
                f"{launch.launch}<<<{shown_launch(launch)}>>>" for launch in launches_of(side.plan)
            )
            why = f"{verdict.outcome}: {verdict.detail} (with {how})"
            worst = Given(PairOutcome.REFUSED, why, verdict=verdict)
    return worst


def judged(pair: Candidate, judging: Judging) -> tuple[Candidate, Verdict]:
    """The pair, with test sizes for what both plans leave untested, and the verdict on it.

    Sides that differ there are no pair. Sizes at which one cannot run are left out, as are those that are no
    multiples where all others are: the kernels may need them.
    """
    problem = pair.problem
    assert problem is not None
    sides = {"slow": pair.slow, "fast": pair.fast}
    whole = problem if pair.origin.problem == "known" else mended(problem, sides)

    def on(other: Problem) -> Verdict:
        return judging(replace(pair, problem=other))

    if whole != problem:
        verdict = on(whole)
        units = {
            name: math.gcd(*(setting[name] for setting in problem.sizes.test))
            for name in problem.sizes.headline
        }
        multiples = all(
            setting[name] % (unit or 1) == 0 for setting in whole.sizes.test for name, unit in units.items()
        )
        if verdict.outcome is Outcome.CORRECT or (verdict.outcome is Outcome.MISMATCH and multiples):
            return replace(pair, problem=whole), verdict
    verdict = on(problem)
    if whole != problem and verdict.outcome is Outcome.CORRECT:
        problem = admit.closed(problem, sides, lambda other: on(other).outcome is Outcome.CORRECT)
    return replace(pair, problem=problem), verdict


def complete_pairs(
    workspace: Workspace, kernels: Iterable[str], judging: Judging, *, note: Note = silent
) -> list[tuple[str, Given]]:
    """Give every natural pair of these kernels (ids) that has no problem one; returns what became of each."""
    wanted, results = set(kernels), []
    for path in store.find(workspace.pairs, "pair.json"):
        try:
            pair = store.read_candidate(path.parent)
        except InputError as error:
            note(str(error))
            continue
        natural = pair.origin.kind in ("natural", "history")
        if pair.problem is not None or not natural or not wanted & {*pair.origin.kernels}:
            continue
        given_problem = Given(PairOutcome.NO_PROBLEM, "its kernels are not in the workspace")
        try:
            halves = list(_halves(pair, workspace))
        except InputError as error:
            halves, given_problem = [], Given(PairOutcome.NO_PROBLEM, str(error))
        for slow, fast in halves:
            given_problem = give(pair, slow, fast, judging)
            if given_problem.pair is not None:
                store.write_candidate(path.parent, given_problem.pair)
                break
        note(f"{pair.id}: {given_problem.outcome}{f': {given_problem.why}' if given_problem.why else ''}")
        results.append((pair.id, given_problem))
    return results


def _halves(pair: Candidate, workspace: Workspace) -> Iterator[tuple[PairKernel, PairKernel]]:
    """The kernels of both sides that correspond: of the same name, or the only ones."""
    folders = [workspace.kernels / name for name in pair.origin.kernels]
    kernels_here = [
        (store.read_json(folder / "kernel.json", Kernel), folder)
        for folder in folders
        if store.exists(folder / "kernel.json")
    ]
    if not kernels_here:
        return
    slow_ones = _slow_ones([kernel for kernel, _ in kernels_here], len(folders))
    slow = [
        PairKernel(kernel, folder, pair.slow.code)
        for kernel, folder in kernels_here
        if kernel.id in slow_ones
    ]
    fast = [
        PairKernel(kernel, folder, pair.fast.code)
        for kernel, folder in kernels_here
        if kernel.id not in slow_ones
    ]
    for half in slow:
        for other in fast:
            if half.kernel.name == other.kernel.name or len(slow) == len(fast) == 1:
                yield half, other


def _slow_ones(kernels: Sequence[Kernel], known: int) -> frozenset[str]:
    """The slow side's kernels: those of its variant folder, or the first of two versions."""
    if len(kernels) == known == 2:
        return frozenset((kernels[0].id,))
    return frozenset(kernel.id for kernel in kernels if kernel.variant == kernels[0].variant)
