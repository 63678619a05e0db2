"""One problem for both sides of a pair: the admitted problem of one kernel, with a plan for the other.

The emulator judges both sides before the pair gets the problem. Not covered: drafting a problem (`stage`),
the other kernel's plan (`other_kernel`), which kernels make a pair (`kcurate.extract`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product

from kcurate.core import store
from kcurate.core.notes import Note, silent
from kcurate.core.workspace import Workspace
from kcurate.draft.for_pairs.other_kernel import (
    PairKernel,
    PlacedProblem,
    counterpart,
    launches_of,
    shown_launch,
)
from kcurate.draft.trying import admit
from kcurate.errors import InputError
from kcurate.problem.size_gaps import divisible, mended
from kcurate.records import SIDES, Candidate, Kernel, Outcome, Problem, Verdict

Judging = Callable[[Candidate], Verdict]
# What may hold at some sizes only: other values, or a launch that rounds down to no block.
_AT_SOME_SIZES = (Outcome.MISMATCH, Outcome.MALFORMED, Outcome.LAUNCH_ERROR)


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
    """What became of a pair: the pair with its problem (None: none fits), why, the verdict if refused.

    With a pair and a verdict, both sides agree only at fewer sizes than the slow side's: `why` says which.
    """

    outcome: PairOutcome
    why: str = ""
    pair: Candidate | None = None
    verdict: Verdict | None = None


def give(pair: Candidate, slow: PairKernel, fast: PairKernel, judging: Judging) -> Given:
    """The pair with an admitted problem of either side that both sides solve alike.

    A problem recorded from a running program is tried first; else the one of more sizes, the stricter one,
    that of a kernel that host code launches, the slow side's. Sides that differ on the slow side's problem
    have no other one, unless a launch rounds sizes down: then `why` says where they agree.
    """
    worst = Given(PairOutcome.NO_PROBLEM, "neither kernel has an admitted problem")
    reference: tuple[Candidate, Verdict] | None = None
    for known, owner, other in _ordered(slow, fast):
        side = counterpart(known, owner, other)
        if isinstance(side, str):
            worst = worst if worst.outcome is PairOutcome.REFUSED else Given(PairOutcome.NO_MATCH, side)
            continue
        mine = known.side.side(owner.code)
        whole = replace(
            pair,
            problem=known.problem,
            origin=replace(pair.origin, problem=known.origin),
            slow=mine if owner is slow else side,
            fast=side if owner is slow else mine,
        )
        rounded, (tried, verdict) = False, judged(whole, judging)
        if verdict.outcome in _AT_SOME_SIZES and known.origin != "known":
            reference = reference or ((whole, verdict) if owner is slow else None)
            even = divisible(known.problem, {"slow": whole.slow, "fast": whole.fast})
            if even != known.problem:
                reference = reference or (whole, verdict)
                even_pair, even_verdict = judged(replace(whole, problem=even), judging)
                if even_verdict.outcome is Outcome.CORRECT:
                    rounded, tried, verdict = True, even_pair, even_verdict
        if verdict.outcome is Outcome.CORRECT:
            narrowed = Given(PairOutcome.ADMITTED, "", tried)
            if reference is not None:
                narrowed = _narrowed(tried, rounded, *reference)
            if narrowed.pair is not None:
                return narrowed
            worst = narrowed
        elif worst.outcome is not PairOutcome.REFUSED:
            how = ", ".join(
                f"{launch.launch}<<<{shown_launch(launch)}>>>" for launch in launches_of(side.plan)
            )
            if verdict.side and getattr(whole, verdict.side) is not side:
                how += f" on the {'fast' if verdict.side == 'slow' else 'slow'} side"
            why = f"{verdict.outcome}: {verdict.detail} (with {how})"
            worst = Given(PairOutcome.REFUSED, why, verdict=verdict)
    return worst


def _ordered(slow: PairKernel, fast: PairKernel) -> list[tuple[PlacedProblem, PairKernel, PairKernel]]:
    """The admitted problems in the order in which `give` tries them: each with its kernel and the other."""
    problems = [
        (known, half, other) for half, other in ((slow, fast), (fast, slow)) if (known := half.known())
    ]
    if len(problems) == len(SIDES):
        first, second = (known.problem for known, _, _ in problems)
        fewer = bool(_units(second).keys() - _units(first).keys())
        if not fewer:
            problems.sort(key=lambda halves: not halves[1].kernel.launch_sites)
            if admit.stricter(*(halves[0].problem for halves in problems[::-1])):
                problems.reverse()
    return sorted(problems, key=lambda halves: halves[0].origin != "captured")


def _units(problem: Problem) -> dict[str, int]:
    """The sizes whose values in all tests are multiples of a number above one, with that number."""
    units = {
        name: math.gcd(*(setting[name] for setting in problem.sizes.test)) for name in problem.sizes.headline
    }
    return {name: unit for name, unit in units.items() if unit > 1}


def _narrowed(tried: Candidate, rounded: bool, reference: Candidate, verdict: Verdict) -> Given:
    """The pair on a problem that both sides solve, though not the slow side's problem.

    `rounded`: its sizes were raised to what its launches divide. Refused where it has fewer
    sizes and no launch says so: a kernel that leaves the rest out is wrong.
    """
    assert tried.problem is not None and reference.problem is not None
    why = f"{verdict.outcome}: {verdict.detail}"
    before = _units(reference.problem)
    units = {name: unit for name, unit in _units(tried.problem).items() if before.get(name, 1) % unit}
    if not units:
        return Given(PairOutcome.ADMITTED, "", tried)
    sides = {"slow": reference.slow, "fast": reference.fast}
    if not rounded and divisible(reference.problem, sides) == reference.problem:
        return Given(PairOutcome.REFUSED, why, verdict=verdict)
    where = " and ".join(f"{name} is a multiple of {unit}" for name, unit in units.items())
    claim = f"The sides agree only where {where}; else {verdict.detail}"
    described = " ".join(filter(None, (tried.description, f"{claim}.")))
    return Given(PairOutcome.ADMITTED, claim, replace(tried, description=described), verdict)


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
        units = _units(problem).items()
        multiples = all(setting[name] % unit == 0 for setting in whole.sizes.test for name, unit in units)
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
    written = (folder for folder in folders if store.exists(folder / "kernel.json"))
    kernels_here = [(store.read_json(folder / "kernel.json", Kernel), folder) for folder in written]
    if not kernels_here:
        return
    slow_ones = _slow_ones([kernel for kernel, _ in kernels_here], len(folders))
    slow, fast = list[PairKernel](), list[PairKernel]()
    for kernel, folder in kernels_here:
        half, side = (slow, pair.slow) if kernel.id in slow_ones else (fast, pair.fast)
        half.append(PairKernel(kernel, folder, side.code))
    for first, other in product(slow, fast):
        if first.kernel.name == other.kernel.name or len(slow) == len(fast) == 1:
            yield first, other


def _slow_ones(kernels: Sequence[Kernel], known: int) -> frozenset[str]:
    """The slow side's kernels: those of its variant folder, or the first of two versions."""
    if len(kernels) == known == 2:
        return frozenset((kernels[0].id,))
    return frozenset(kernel.id for kernel in kernels if kernel.variant == kernels[0].variant)
