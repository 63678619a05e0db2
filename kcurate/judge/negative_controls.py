"""Wrong answers that must fail: a problem whose tests accept one of them proves nothing.

`weakness`: the planted answers (`kcurate.judge.planted_answers`) at the test sizes, compared with the
reference's outputs exactly as a side's are; one trial that rejects an answer is enough. Then what the
reference makes of inputs of which one is left out, or half of one. `blindness`: what it makes of inputs
rounded to the next narrower type, or with a tenth of one set to zero, at the size where sums are longest. Not
covered: the comparison (`kcurate.judge.agreement`), the further runs (`kcurate.judge.reference_runs`).

An answer that is right but for rounding at every trial is no wrong one: `max(y, 0)` of a sum of squares, a
copy of a copy kernel's input, an input that does not matter. Only where all outputs are the same whatever the
inputs is the right answer itself too little.

A control is never decided by one pair of seeds. While every trial accepts a wrong answer, the reference runs
with another seed, up to `MORE_SEEDS` times. A problem whose answer is the same for two seeds with probability
p is then refused with probability p**(MORE_SEEDS + 1) at most: one small integer of 50 equally likely values
once in 1e28 judgements (with one pair it was once in 50), a coin once in 130,000.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kcurate.core import store
from kcurate.judge.agreement import Outputs, differs, identical, in_order, valid_count
from kcurate.judge.case import Case, Ruling
from kcurate.judge.planted_answers import Planted, planted
from kcurate.judge.reference_runs import CHANGED_INPUTS, WITHOUT_INPUT, outputs_of_rerun
from kcurate.judge.trials import Trial, Tried
from kcurate.judge.verifying import Verification
from kcurate.problem.compare import compare
from kcurate.problem.dtypes import UNIT_ROUNDOFF, is_float
from kcurate.problem.expressions import evaluate
from kcurate.problem.inputs.spoiled import NARROWER
from kcurate.problem.outputs import logical_bytes, output_names, unordered
from kcurate.records import Outcome, Problem, Tolerance

# Further seeds for a wrong answer that every trial so far accepts.
MORE_SEEDS = 16
# Further seeds for spoiled inputs: these runs may be at the bench size.
MORE_SPOILED = 4
# What inputs that are all zero, or all the least value of a range without it, still promise.
KEPT_PROMISES = {"finite", "positive", "nonnegative"}
# An output tells a narrower input from the input if it is at least this many times more precise.
PRECISER = 4.0

# Runs the reference on a trial's inputs; None if it failed.
Rerun = Callable[[Trial], Outputs | None]


@dataclass(frozen=True)
class Spoiling:
    """What spoiled inputs did: whether the outputs are `accepted` as right, and whether a float `changed`."""

    accepted: bool
    changed: bool


# What the reference makes of a trial's inputs after a change, beside its own outputs; None if it failed.
Spoil = Callable[[Trial, str], Spoiling | None]


class Controls:
    """The controls of one judge; each is passed once per reference."""

    def __init__(self) -> None:
        self.passed: set[str] = set()

    def admit(self, case: Case, verification: Verification, rerun: Rerun | None) -> None:
        """Compare wrong answers with the reference's outputs at the test sizes.

        Raises:
            Ruling: `malformed`, because every trial accepts one of them.
        """
        key = store.side_key(case.candidate, verification.reference)
        if key not in self.passed:
            accepted = weakness(verification.problem, verification.tried, verification.expected, rerun)
            if accepted is not None:
                raise Ruling(Outcome.MALFORMED, f"the problem is too weak for {accepted}")
            self.passed.add(key)
        case.passed("controls")

    def admit_tolerance(self, case: Case, verification: Verification, base: Trial, spoil: Spoil) -> None:
        """Compare what the reference makes of spoiled inputs with its outputs, from the trial `base` on.

        Raises:
            Ruling: `malformed`, because the tolerance accepts it.
        """
        key = f"{store.side_key(case.candidate, verification.reference)} {sorted(base.sizes.items())}"
        if key not in self.passed:
            accepted = blindness(verification.problem, base, spoil)
            if accepted is not None:
                text = f"the problem is too weak for {accepted}: its tolerance accepts them ({base.text})"
                raise Ruling(Outcome.MALFORMED, text)
            self.passed.add(key)
        case.passed("spoiled_inputs")


def rerunning(case: Case, verification: Verification, survives: Callable[[str], bool]) -> Rerun:
    """Runs the reference once more at a test size, and records the seeds.

    `survives`: whether the reference has not failed in extra runs of a kind so far. Runs without an input are
    a separate kind: where one fails, the other controls still run.
    """
    proxy = verification.sides[verification.reference]

    def rerun(trial: Trial) -> Outputs | None:
        change = trial.variation.partition("/")[2].partition(":")[0]
        what = WITHOUT_INPUT if change in ("without", "half") else CHANGED_INPUTS
        if not survives(what):
            return None
        if trial.seed not in case.seeds:
            case.seeds.append(trial.seed)
        return outputs_of_rerun(proxy, verification.problem, trial.request, verification.lock.shared, what)

    return rerun


def spoiling(
    problem: Problem, expected: Mapping[str, Outputs], rerun: Rerun, exact: Callable[[Trial], bool]
) -> Spoil:
    """`Spoil` on the host; `expected`: the reference's outputs by slot. `exact`: as for a side."""

    def spoil(trial: Trial, change: str) -> Spoiling | None:
        plain = expected.get(trial.slot) or rerun(trial)
        slot, variation = f"{trial.slot}-{change}", f"{trial.variation}/{change}"
        spoiled = rerun(replace(trial, slot=slot, variation=variation))
        if plain is None or spoiled is None:
            return None
        return Spoiling(
            accepted=not any(
                differs(problem, trial.sizes, name, plain, spoiled, exact=exact(trial)) for name in plain
            ),
            changed=any(
                is_float(problem.buffers[name].dtype) and not identical(plain[name], spoiled[name])
                for name in plain
            ),
        )

    return spoil


@np.errstate(over="ignore", invalid="ignore")  # wrong answers may be beyond their type, or NaN
def weakness(
    problem: Problem, tried: Sequence[Trial], expected: Mapping[str, Outputs], rerun: Rerun | None = None
) -> str | None:
    """A wrong answer that every trial accepts, and what would mend it; None when each fails some trial.

    `tried`: the trials that ran. `expected`: the reference's outputs by slot. `rerun` None: no more seeds,
    and no runs on spoiled inputs.
    """
    known = Tried(problem, tried, expected)
    return (
        _one_element(problem)
        or _accepted_plant(known, rerun)
        or (None if rerun is None else _idle_input(known, rerun))
    )


def _accepted_plant(tried: Tried, rerun: Rerun | None) -> str | None:
    """The first planted answer that all trials accept, those of further seeds too."""
    first = list(tried.trials)
    accepted = [plant for plant in planted(tried) if passes(tried, plant, first)]
    rng = random.Random(first[0].seed if first else 0)
    for number in range(MORE_SEEDS if rerun is not None else 0):
        if not accepted:
            return None
        like = first[number % len(first)]
        trial = replace(like, slot=f"more{number}", seed=rng.getrandbits(48))
        outputs = rerun(trial) if rerun is not None else None
        if outputs is None:
            break
        tried.add(trial, outputs)
        accepted = [plant for plant in accepted if _accepts(tried, plant, trial)]
    return f"{accepted[0].what}; {accepted[0].mend}" if accepted else None


def passes(tried: Tried, plant: Planted, trials: Sequence[Trial]) -> bool:
    """Whether a planted answer is wrong in some trial, and every trial accepts it."""
    answers = ((trial, plant.answer(trial)) for trial in trials)
    wrong = False
    for trial, answer in answers:
        if answer is None:
            continue
        if not _agrees(tried, trial, answer):
            return False
        wrong = wrong or plant.output is None or not _right(tried, trial, plant.output, answer)
    return wrong


def _accepts(tried: Tried, plant: Planted, trial: Trial) -> bool:
    answer = plant.answer(trial)
    return answer is None or _agrees(tried, trial, answer)


def _agrees(tried: Tried, trial: Trial, answer: Outputs) -> bool:
    expected = tried.expected[trial.slot]
    return not any(
        differs(tried.problem, trial.sizes, name, expected, answer)
        for name in answer
        if answer[name] is not expected[name]
    )


def _right(tried: Tried, trial: Trial, name: str, answer: Outputs) -> bool:
    """Whether one output is the right answer rounded otherwise, however much its tolerance allows."""
    buffer, expected = tried.problem.buffers[name], tried.expected[trial.slot]
    if not is_float(buffer.dtype) or identical(expected[name], answer[name]):
        return True  # the trial accepted it, and integers must be equal
    declared = buffer.tolerance or Tolerance()
    rule = Tolerance(order=declared.order, accumulate=declared.accumulate)
    valid = valid_count(tried.problem, name, expected)
    if unordered(buffer):
        right, got = (in_order(tried.problem, name, outputs, valid)[name] for outputs in (expected, answer))
        return compare(right, got, buffer.dtype, rule).ok
    return compare(expected[name], answer[name], buffer.dtype, rule, valid=valid).ok


def _one_element(problem: Problem) -> str | None:
    """An axis with one element at every test size, more at the bench size: no mistake along it can show."""
    for name, buffer in problem.buffers.items():
        if buffer.role == "scratch":
            continue
        for axis, extent in enumerate(buffer.shape):
            if evaluate(extent, problem.sizes.headline) < 2:
                continue
            if all(evaluate(extent, sizes) < 2 for sizes in problem.sizes.test):
                return (
                    f"mistakes along axis {axis} of {name}: it has one element ({extent}) at every test size"
                )
    return None


def _idle_input(tried: Tried, rerun: Rerun) -> str | None:
    """What is accepted of the reference's answers on inputs without one of them, or without half of one.

    A change that leaves the outputs as they are says nothing: the input may not matter at these sizes.
    """
    problem = tried.problem
    sizes = problem.sizes.test[0] if problem.sizes.test else {}
    plain = [name for name in problem.buffers if _replaceable(problem, name)]
    changes = [(f"without:{name}", f"answers that ignore {name}", name) for name in plain]
    if plain:
        largest = max(plain, key=lambda name: logical_bytes(problem.buffers[name], sizes))
        changes.append((f"half:{largest}", f"half the terms ({largest})", largest))
    for change, what, name in changes:
        if _hidden(tried, rerun, change):
            return f"{what}; {name} hardly changes the outputs: give it a wider range, or lower the tolerance"
    return None


def _replaceable(problem: Problem, name: str) -> bool:
    """Whether one value of an input's range everywhere is valid contents."""
    buffer = problem.buffers[name]
    if (
        buffer.role not in ("in", "inout")
        or buffer.init is None
        or not KEPT_PROMISES.issuperset(buffer.promises)
    ):
        return False
    return is_float(buffer.dtype) or buffer.init.kind == "integers"


def _hidden(tried: Tried, rerun: Rerun, change: str) -> bool:
    """Whether a change of inputs makes outputs wrong that are accepted, in every trial.

    Of a change that leaves the outputs of a few trials right, no more are asked.
    """
    wrong = False
    for number, trial in enumerate(_smallest_first(tried)):
        if number > MORE_SPOILED and not wrong:
            break
        spoiled = replace(trial, slot=f"{trial.slot}-{change}", variation=f"{trial.variation}/{change}")
        outputs = rerun(spoiled)
        if outputs is None or not _agrees(tried, trial, outputs):
            return False
        wrong = wrong or not all(_right(tried, trial, name, outputs) for name in outputs)
    return wrong


def _smallest_first(tried: Tried) -> list[Trial]:
    """The first trial of each size by the number of its outputs' elements, then the second ones, ..."""
    seen: dict[str, int] = {}
    ranks = []
    for trial in tried.trials:
        sizes = str(sorted(trial.sizes.items()))
        seen[sizes] = seen.get(sizes, 0) + 1
        elements = sum(int(array.size) for array in tried.expected[trial.slot].values())
        ranks.append((seen[sizes], elements))
    return [tried.trials[at] for at in sorted(range(len(ranks)), key=ranks.__getitem__)]


def blindness(problem: Problem, base: Trial, spoil: Spoil) -> str | None:
    """The first way to spoil the inputs that changes the outputs, yet passes as right; None if there is none.

    This asks about tolerances: outputs that keep every bit are not wrong (`argmax` of distinct values, a mask
    or permutation, an input that does not matter at these sizes), and integers accept no change. So a way to
    spoil inputs counts if it changes a floating output in some trial and every trial accepts what comes out.
    `base`: the first trial; more have its sizes and other seeds.
    """
    for change, what in _changes(problem, base.sizes):
        hidden = False
        for trial in _seeds(base):
            effect = spoil(trial, change)
            if effect is None or not effect.accepted:
                hidden = False
                break
            hidden |= effect.changed
        if hidden:
            return what
    return None


def _seeds(base: Trial) -> Iterator[Trial]:
    """The trial, then others of its sizes, of its variation and nominal in turn."""
    yield base
    rng = random.Random(base.seed)
    for number in range(MORE_SPOILED):
        variation = base.variation if number % 2 else "nominal"
        yield replace(base, slot=f"{base.slot}-{number}", seed=rng.getrandbits(48) | 1, variation=variation)


def _changes(problem: Problem, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """The changes of inputs that the problem should notice (as in `contents.generate`), each in words."""
    outputs = [problem.buffers[name] for name in output_names(problem)]
    finest = min(
        (
            UNIT_ROUNDOFF[buffer.dtype]
            for buffer in outputs
            if is_float(buffer.dtype) and not (buffer.tolerance and buffer.tolerance.relative)
        ),
        default=None,
    )
    inputs = {
        name: logical_bytes(buffer, sizes)
        for name, buffer in problem.buffers.items()
        if buffer.role in ("in", "inout") and is_float(buffer.dtype) and buffer.init is not None
    }
    if finest is None or not inputs:
        return
    narrower = (NARROWER.get(problem.buffers[name].dtype) for name in inputs)
    if any(dtype is not None and finest * PRECISER <= UNIT_ROUNDOFF[dtype] for dtype in narrower):
        yield "narrow", "inputs rounded to the next narrower type"
    largest = max(inputs, key=lambda name: inputs[name])
    yield f"hole:{largest}", f"a tenth of {largest} set to zero"
