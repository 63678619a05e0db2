"""Wrong answers that must fail: a problem whose tests accept one of them proves nothing.

`weakness` compares planted answers (`kcurate.judge.planted_answers`) with the reference's outputs at the test
sizes, exactly as a side's outputs are compared; one trial that rejects an answer is enough. Then it does the
same with the reference's outputs on inputs without one of them, or without half of one. `blindness` does it
with inputs rounded to the next narrower type, or with a tenth of one input set to zero, at the size with the
longest sums: a tolerance that accepts those results is too loose. Not covered: the comparison
(`kcurate.judge.agreement`), the further runs (`kcurate.judge.reference_runs`).

A planted answer that is right up to rounding in every trial is not wrong: `max(y, 0)` of a sum of squares, or
the input as the output of a copy kernel. The exception: if all outputs are the same whatever the inputs are,
the problem is refused although the constant answer is right.

While every trial accepts a wrong answer, the reference runs with another seed, up to `MORE_SEEDS` times, so
that no problem is refused by coincidence. A problem whose answer is equal for two seeds with probability p is
refused by mistake with probability p**(MORE_SEEDS + 1) at most. Example: an answer that is one of 50 equally
likely integers is refused once in 1e28 judgements (once in 50 with a single pair of seeds), a coin flip once
in 130,000.
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

# The most further seeds for a wrong answer that every trial so far accepts.
MORE_SEEDS = 16
# Further seeds for spoiled inputs: these runs may be at the bench size.
MORE_SPOILED = 4
# Promises that still hold for an input that is constant: all zero, or the least value of its range.
KEPT_PROMISES = {"finite", "positive", "nonnegative"}
# An output is expected to reveal narrowed inputs only if it is at least this many times more precise than
# them.
PRECISER = 4.0

# Runs the reference on a trial's inputs; None if it failed.
Rerun = Callable[[Trial], Outputs | None]


@dataclass(frozen=True)
class Spoiling:
    """The effect of spoiled inputs: whether outputs are still `accepted`, and a floating output `changed`."""

    accepted: bool
    changed: bool


# Runs the reference on a trial's inputs after a change and compares its outputs; None if it failed.
Spoil = Callable[[Trial, str], Spoiling | None]


class Controls:
    """The controls of one judge; each runs once per reference."""

    def __init__(self) -> None:
        self.passed: set[str] = set()

    def admit(self, case: Case, verification: Verification, rerun: Rerun | None) -> None:
        """Check that some trial at the test sizes rejects every wrong answer.

        Raises:
            Ruling: `malformed`: every trial accepts one of them.
        """
        key = store.side_key(case.candidate, verification.reference)
        if key not in self.passed:
            accepted = weakness(verification.problem, verification.tried, verification.expected, rerun)
            if accepted is not None:
                raise Ruling(Outcome.MALFORMED, f"the problem is too weak for {accepted}")
            self.passed.add(key)
        case.passed("controls")

    def admit_tolerance(self, case: Case, verification: Verification, base: Trial, spoil: Spoil) -> None:
        """Check that tolerances reject the reference's outputs on spoiled inputs, starting with trial `base`.

        Raises:
            Ruling: `malformed`: a tolerance accepts them.
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
    """A function that runs the reference on a trial at a test size and records new seeds in the case.

    `survives`: whether no extra run of a kind has failed so far. Runs without an input are a separate kind,
    so that the other controls still run if one fails.
    """
    proxy = verification.sides[verification.reference]

    def rerun(trial: Trial) -> Outputs | None:
        change = trial.variation.partition("/")[2].partition(":")[0]
        kind = WITHOUT_INPUT if change in ("without", "half") else CHANGED_INPUTS
        if not survives(kind):
            return None
        if trial.seed not in case.seeds:
            case.seeds.append(trial.seed)
        return outputs_of_rerun(proxy, verification.problem, trial.request, verification.lock.shared, kind)

    return rerun


def spoiling(
    problem: Problem, expected: Mapping[str, Outputs], rerun: Rerun, exact: Callable[[Trial], bool]
) -> Spoil:
    """A `Spoil` that compares on the host. `expected`: the reference's outputs by slot."""

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
    """A wrong answer that every trial accepts and how to mend the problem; None if all are rejected.

    `tried`: the trials that ran. `expected`: the reference's outputs by slot. `rerun` None: no further seeds
    and no runs on changed inputs.
    """
    known = Tried(problem, tried, expected)
    return (
        _single_element_axis(problem)
        or _accepted_plant(known, rerun)
        or (None if rerun is None else _removable_input(known, rerun))
    )


def _accepted_plant(tried: Tried, rerun: Rerun | None) -> str | None:
    """The first planted answer that all trials accept, also with further seeds."""
    tried_so_far = list(tried.trials)
    accepted = [plant for plant in planted(tried) if passes(tried, plant, tried_so_far)]
    rng = random.Random(tried_so_far[0].seed if tried_so_far else 0)
    for number in range(MORE_SEEDS if rerun is not None else 0):
        if not accepted:
            return None
        template = tried_so_far[number % len(tried_so_far)]
        trial = replace(template, slot=f"more{number}", seed=rng.getrandbits(48))
        outputs = rerun(trial) if rerun is not None else None
        if outputs is None:
            break
        tried.add(trial, outputs)
        accepted = [plant for plant in accepted if _accepts(tried, plant, trial)]
    return f"{accepted[0].label}; {accepted[0].mend}" if accepted else None


def passes(tried: Tried, plant: Planted, trials: Sequence[Trial]) -> bool:
    """Whether a planted answer is wrong in some trial, and every trial accepts it."""
    answers = ((trial, plant.answer(trial)) for trial in trials)
    wrong = False
    for trial, answer in answers:
        if answer is None:
            continue
        if not _agrees(tried, trial, answer):
            return False
        wrong = (
            wrong or plant.output is None or not _is_right_up_to_rounding(tried, trial, plant.output, answer)
        )
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


def _is_right_up_to_rounding(tried: Tried, trial: Trial, name: str, answer: Outputs) -> bool:
    """Whether one output is right up to rounding, under the default instead of its own tolerance."""
    buffer, expected = tried.problem.buffers[name], tried.expected[trial.slot]
    if not is_float(buffer.dtype) or identical(expected[name], answer[name]):
        return True  # the trial accepted it, and integers must be equal
    own_tolerance = buffer.tolerance or Tolerance()
    default_tolerance = Tolerance(order=own_tolerance.order, accumulate=own_tolerance.accumulate)
    valid = valid_count(tried.problem, name, expected)
    if unordered(buffer):
        right, got = (in_order(tried.problem, name, outputs, valid)[name] for outputs in (expected, answer))
        return compare(right, got, buffer.dtype, default_tolerance).ok
    return compare(expected[name], answer[name], buffer.dtype, default_tolerance, valid=valid).ok


def _single_element_axis(problem: Problem) -> str | None:
    """An axis that has one element at every test size but more at the bench size: its mistakes are hidden."""
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


def _removable_input(tried: Tried, rerun: Rerun) -> str | None:
    """The first input that can be removed, or of which half can be, without any trial rejecting the outputs.

    Inputs whose removal changes nothing are not reported: they may not matter at these sizes.
    """
    problem = tried.problem
    sizes = problem.sizes.test[0] if problem.sizes.test else {}
    replaceable = [name for name in problem.buffers if _replaceable(problem, name)]
    changes = [(f"without:{name}", f"answers that ignore {name}", name) for name in replaceable]
    if replaceable:
        largest = max(replaceable, key=lambda name: logical_bytes(problem.buffers[name], sizes))
        changes.append((f"half:{largest}", f"half the terms ({largest})", largest))
    for change, mistake, name in changes:
        if _is_hidden(tried, rerun, change):
            return (
                f"{mistake}; {name} hardly changes the outputs: give it a wider range, or lower the tolerance"
            )
    return None


def _replaceable(problem: Problem, name: str) -> bool:
    """Whether an input may hold the same value everywhere."""
    buffer = problem.buffers[name]
    if (
        buffer.role not in ("in", "inout")
        or buffer.init is None
        or not KEPT_PROMISES.issuperset(buffer.promises)
    ):
        return False
    return is_float(buffer.dtype) or buffer.init.kind == "integers"


def _is_hidden(tried: Tried, rerun: Rerun, change: str) -> bool:
    """Whether every trial accepts the outputs after a change of inputs although they are wrong in some.

    If they are still right in the first few trials, no more trials run.
    """
    wrong = False
    for number, trial in enumerate(_smallest_first(tried)):
        if number > MORE_SPOILED and not wrong:
            break
        spoiled = replace(trial, slot=f"{trial.slot}-{change}", variation=f"{trial.variation}/{change}")
        outputs = rerun(spoiled)
        if outputs is None or not _agrees(tried, trial, outputs):
            return False
        wrong = wrong or not all(_is_right_up_to_rounding(tried, trial, name, outputs) for name in outputs)
    return wrong


def _smallest_first(tried: Tried) -> list[Trial]:
    """The first trial of each size, smallest outputs first, then the second trial of each size, and so on."""
    seen: dict[str, int] = {}
    ranks = []
    for trial in tried.trials:
        sizes = str(sorted(trial.sizes.items()))
        seen[sizes] = seen.get(sizes, 0) + 1
        elements = sum(int(array.size) for array in tried.expected[trial.slot].values())
        ranks.append((seen[sizes], elements))
    return [tried.trials[at] for at in sorted(range(len(ranks)), key=ranks.__getitem__)]


def blindness(problem: Problem, base: Trial, spoil: Spoil) -> str | None:
    """The first way to spoil the inputs that no trial notices, in words; None if every way is noticed.

    A way is reported if it changes a floating output in some trial and every trial accepts the outputs.
    Outputs that keep every bit are right (`argmax` of distinct values, a mask, a permutation), and integer
    outputs are compared exactly. `base`: the first trial; further ones have its sizes and other seeds.
    """
    for change, description in _changes(problem, base.sizes):
        unnoticed = False
        for trial in _seeds(base):
            effect = spoil(trial, change)
            if effect is None or not effect.accepted:
                unnoticed = False
                break
            unnoticed |= effect.changed
        if unnoticed:
            return description
    return None


def _seeds(base: Trial) -> Iterator[Trial]:
    """The trial, then others of its sizes with new seeds, nominal and of its variation in turn."""
    yield base
    rng = random.Random(base.seed)
    for number in range(MORE_SPOILED):
        variation = base.variation if number % 2 else "nominal"
        yield replace(base, slot=f"{base.slot}-{number}", seed=rng.getrandbits(48) | 1, variation=variation)


def _changes(problem: Problem, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """The changes of inputs (as in `contents.generate`) that the tolerances should reveal, each in words."""
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
