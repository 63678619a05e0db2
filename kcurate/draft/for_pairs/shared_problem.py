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
from kcurate.records import SIDES, Candidate, Kernel, Outcome, Problem, Side, Verdict

Judging = Callable[[Candidate], Verdict]
# Failures that may occur at some sizes only: different values, or a launch that rounds down to no block.
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
class PairResult:
    """The result for a pair: the pair with its problem (None: no problem fits), the reason, the verdict if
    refused.

    With a pair and a verdict, both sides agree only at fewer sizes than the slow side's: `why` says which.
    """

    outcome: PairOutcome
    why: str = ""
    pair: Candidate | None = None
    verdict: Verdict | None = None


def give_problem(pair: Candidate, slow: PairKernel, fast: PairKernel, judging: Judging) -> PairResult:
    """The pair with an admitted problem of either side that both sides solve alike.

    A problem recorded from a running program is tried first; else the one of more sizes, the stricter one,
    that of a kernel that host code launches, the slow side's. Sides that differ on the slow side's problem
    have no other one, unless a launch rounds sizes down: then `why` says where they agree.
    """
    worst = PairResult(PairOutcome.NO_PROBLEM, "neither kernel has an admitted problem")
    # The first problem that the sides failed: an admitted narrower one is compared with it.
    reference: tuple[Candidate, Verdict] | None = None
    for placed, owner, other in _ordered(slow, fast):
        side = counterpart(placed, owner, other)
        if isinstance(side, str):
            if worst.outcome is not PairOutcome.REFUSED:
                worst = PairResult(PairOutcome.NO_MATCH, side)
            continue
        owners_side = placed.side.side(owner.code)
        candidate = replace(
            pair,
            problem=placed.problem,
            origin=replace(pair.origin, problem=placed.origin),
            slow=owners_side if owner is slow else side,
            fast=side if owner is slow else owners_side,
        )
        tried, verdict = judged(candidate, judging)
        rounded = False
        if verdict.outcome in _AT_SOME_SIZES and placed.origin != "known":
            even = divisible(placed.problem, {"slow": candidate.slow, "fast": candidate.fast})
            if reference is None and (owner is slow or even != placed.problem):
                reference = candidate, verdict
            if even != placed.problem:
                even_pair, even_verdict = judged(replace(candidate, problem=even), judging)
                if even_verdict.outcome is Outcome.CORRECT:
                    rounded, tried, verdict = True, even_pair, even_verdict
        if verdict.outcome is Outcome.CORRECT:
            result = PairResult(PairOutcome.ADMITTED, "", tried)
            if reference is not None:
                result = _narrowed(tried, rounded, *reference)
            if result.pair is not None:
                return result
            worst = result
        elif worst.outcome is not PairOutcome.REFUSED:
            worst = _refused(candidate, side, verdict)
    return worst


def _refused(candidate: Candidate, translated: Side, verdict: Verdict) -> PairResult:
    """The refusal of a pair, naming the launches of the side that was translated."""
    launches = launches_of(translated.plan)
    how = ", ".join(f"{launch.launch}<<<{shown_launch(launch)}>>>" for launch in launches)
    if verdict.side and getattr(candidate, verdict.side) is not translated:
        how += f" on the {'fast' if verdict.side == 'slow' else 'slow'} side"
    return PairResult(
        PairOutcome.REFUSED, f"{verdict.outcome}: {verdict.detail} (with {how})", verdict=verdict
    )


def _ordered(slow: PairKernel, fast: PairKernel) -> list[tuple[PlacedProblem, PairKernel, PairKernel]]:
    """The admitted problems in the order in which `give_problem` tries them: each with its kernel and the
    other."""
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


def _narrowed(tried: Candidate, rounded: bool, reference: Candidate, verdict: Verdict) -> PairResult:
    """The pair on a problem that both sides solve, though not the slow side's problem.

    `rounded`: the test sizes are multiples of what its launches divide by. Refused if the sides agree at
    fewer sizes and no launch rounds down: a kernel that skips the remaining elements is wrong.
    """
    assert tried.problem is not None and reference.problem is not None
    why = f"{verdict.outcome}: {verdict.detail}"
    before = _units(reference.problem)
    units = {name: unit for name, unit in _units(tried.problem).items() if before.get(name, 1) % unit}
    if not units:
        return PairResult(PairOutcome.ADMITTED, "", tried)
    sides = {"slow": reference.slow, "fast": reference.fast}
    if not rounded and divisible(reference.problem, sides) == reference.problem:
        return PairResult(PairOutcome.REFUSED, why, verdict=verdict)
    condition = " and ".join(f"{name} is a multiple of {unit}" for name, unit in units.items())
    claim = f"The sides agree only where {condition}; else {verdict.detail}"
    described = " ".join(filter(None, (tried.description, f"{claim}.")))
    return PairResult(PairOutcome.ADMITTED, claim, replace(tried, description=described), verdict)


def judged(pair: Candidate, judging: Judging) -> tuple[Candidate, Verdict]:
    """The pair, with test sizes added for what both plans leave untested, and the verdict on it. A pair that
    differs at the added sizes is refused. Added sizes at which a side cannot run are dropped, and so are
    those that are no multiples where all sizes of the problem are: the kernels may need multiples.
    """
    problem = pair.problem
    assert problem is not None
    sides = {"slow": pair.slow, "fast": pair.fast}
    extended = problem if pair.origin.problem == "known" else mended(problem, sides)

    def verdict_on(tested: Problem) -> Verdict:
        return judging(replace(pair, problem=tested))

    if extended != problem:
        verdict = verdict_on(extended)
        units = _units(problem).items()
        multiples = all(setting[name] % unit == 0 for setting in extended.sizes.test for name, unit in units)
        if verdict.outcome is Outcome.CORRECT or (verdict.outcome is Outcome.MISMATCH and multiples):
            return replace(pair, problem=extended), verdict
    verdict = verdict_on(problem)
    if extended != problem and verdict.outcome is Outcome.CORRECT:
        problem = admit.with_closed_gaps(
            problem, sides, lambda tested: verdict_on(tested).outcome is Outcome.CORRECT
        )
    return replace(pair, problem=problem), verdict


def complete_pairs(
    workspace: Workspace, kernels: Iterable[str], judging: Judging, *, note: Note = silent
) -> list[tuple[str, PairResult]]:
    """Give every natural pair of these kernels (ids) that has no problem one; returns what became of each."""
    kernel_ids, results = set(kernels), []
    for path in store.find(workspace.pairs, "pair.json"):
        try:
            pair = store.read_candidate(path.parent)
        except InputError as error:
            note(str(error))
            continue
        natural = pair.origin.kind in ("natural", "history")
        if pair.problem is not None or not natural or not kernel_ids & {*pair.origin.kernels}:
            continue
        result = PairResult(PairOutcome.NO_PROBLEM, "its kernels are not in the workspace")
        try:
            halves = list(_halves(pair, workspace))
        except InputError as error:
            halves, result = [], PairResult(PairOutcome.NO_PROBLEM, str(error))
        for slow, fast in halves:
            result = give_problem(pair, slow, fast, judging)
            if result.pair is not None:
                store.write_candidate(path.parent, result.pair)
                break
        note(f"{pair.id}: {result.outcome}{f': {result.why}' if result.why else ''}")
        results.append((pair.id, result))
    return results


def _halves(pair: Candidate, workspace: Workspace) -> Iterator[tuple[PairKernel, PairKernel]]:
    """The kernels of both sides that correspond: of the same name, or the only ones."""
    folders = [workspace.kernels / name for name in pair.origin.kernels]
    written = (folder for folder in folders if store.exists(folder / "kernel.json"))
    with_folders = [(store.read_json(folder / "kernel.json", Kernel), folder) for folder in written]
    if not with_folders:
        return
    slow_ids = _slow_ids([kernel for kernel, _ in with_folders], len(folders))
    slow, fast = list[PairKernel](), list[PairKernel]()
    for kernel, folder in with_folders:
        half, side = (slow, pair.slow) if kernel.id in slow_ids else (fast, pair.fast)
        half.append(PairKernel(kernel, folder, side.code))
    for first, other in product(slow, fast):
        if first.kernel.name == other.kernel.name or len(slow) == len(fast) == 1:
            yield first, other


def _slow_ids(kernels: Sequence[Kernel], folder_count: int) -> frozenset[str]:
    """The slow side's kernels: those of its variant folder, or the first of two versions."""
    if len(kernels) == folder_count == 2:
        return frozenset((kernels[0].id,))
    return frozenset(kernel.id for kernel in kernels if kernel.variant == kernels[0].variant)
