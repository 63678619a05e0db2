"""Wrong answers that must fail: a problem whose tests accept one of them proves nothing.

`weakness`: zeros, a constant, a copy of an input, another seed's answer, and one element in a hundred wrong.
Each is compared with the reference's outputs at the test sizes exactly as a side is; one trial that rejects
it is enough. `blindness`: what the reference itself makes of spoiled inputs (rounded to the next narrower
type, or with a tenth of one set to zero), at the size where sums are longest. Not covered: the comparison
(`kcurate.judge.agreement`), the further runs of the reference (`kcurate.judge.reference_runs`).

A control is never decided by one pair of seeds. While every trial accepts a wrong answer, the reference runs
with another seed, up to `MORE_SEEDS` times. A problem whose answer is the same for two seeds with probability
p is then refused with probability p**(MORE_SEEDS + 1) at most: one small integer of 50 equally likely values
once in 1e28 judgements (with one pair it was once in 50), a coin once in 130,000.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate import store
from kcurate.judge.agreement import Outputs, differs, identical, valid_count
from kcurate.judge.case import Case, Ruling
from kcurate.judge.reference_runs import outputs_again
from kcurate.judge.trials import Trial
from kcurate.judge.verifying import Verification
from kcurate.problem.compare import widened
from kcurate.problem.dtypes import UNIT_ROUNDOFF, is_float
from kcurate.problem.inputs import contents
from kcurate.problem.inputs.spoiled import NARROWER
from kcurate.problem.outputs import logical_bytes, output_names
from kcurate.records import Outcome, Problem

WRONG_SHARE = 0.01
# Further seeds for a wrong answer that every trial so far accepts.
MORE_SEEDS = 16
# Further seeds for spoiled inputs: these runs may be at the bench size.
MORE_SPOILED = 4
# An output tells a narrower input from the input if it is at least this many times more precise.
PRECISER = 4.0

Array = npt.NDArray[Any]
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
            found = weakness(verification.problem, verification.tried, verification.expected, rerun)
            if found is not None:
                raise Ruling(Outcome.MALFORMED, f"the problem is too weak: its tests accept {found}")
            self.passed.add(key)
        case.passed("controls")

    def admit_tolerance(self, case: Case, verification: Verification, base: Trial, spoil: Spoil) -> None:
        """Compare what the reference makes of spoiled inputs with its outputs, from the trial `base` on.

        Raises:
            Ruling: `malformed`, because the tolerance accepts it.
        """
        key = f"{store.side_key(case.candidate, verification.reference)} {sorted(base.sizes.items())}"
        if key not in self.passed:
            found = blindness(verification.problem, base, spoil)
            if found is not None:
                text = f"the problem is too weak: its tolerance accepts {found} ({base.text})"
                raise Ruling(Outcome.MALFORMED, text)
            self.passed.add(key)
        case.passed("spoiled_inputs")


def rerunning(case: Case, verification: Verification) -> Rerun:
    """Runs the reference once more at a test size, and records the seeds."""
    proxy = verification.sides[verification.reference]

    def rerun(trial: Trial) -> Outputs | None:
        if trial.seed not in case.seeds:
            case.seeds.append(trial.seed)
        return outputs_again(proxy, verification.problem, trial.request, verification.lock.shared)

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


def weakness(
    problem: Problem, tried: Sequence[Trial], expected: Mapping[str, Outputs], rerun: Rerun | None = None
) -> str | None:
    """The first wrong answer that every trial accepts, in words; None when each fails some trial.

    `tried`: the trials that ran. `expected`: the reference's outputs by slot. `rerun` None: no more seeds.
    """
    nominal = [trial for trial in tried if trial.variation == "nominal"]
    inputs = {trial.slot: _inputs(problem, trial) for trial in nominal}
    known = dict(expected)
    rng = random.Random(nominal[0].seed if nominal else 0)
    for number in range(MORE_SEEDS + 1):
        found = _weakness(problem, nominal, inputs, known)
        if found is None or rerun is None or not nominal or number == MORE_SEEDS:
            return found
        sizes = problem.sizes.test[number % len(problem.sizes.test)]
        trial = Trial(f"more{number}", sizes, rng.getrandbits(48), "nominal")
        outputs = rerun(trial)
        if outputs is None:
            return found
        nominal.append(trial)
        inputs[trial.slot], known[trial.slot] = _inputs(problem, trial), outputs
    return None


def _weakness(
    problem: Problem,
    nominal: Sequence[Trial],
    inputs: Mapping[str, Outputs],
    expected: Mapping[str, Outputs],
) -> str | None:
    for what, answers in _answers(problem, nominal, inputs, expected):
        if _accepted(problem, answers, expected):
            return what
    return None


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
            found = spoil(trial, change)
            if found is None or not found.accepted:
                hidden = False
                break
            hidden |= found.changed
        if hidden:
            return what
    return None


def _seeds(base: Trial) -> Iterator[Trial]:
    """The trial, then others of its sizes, of its variation and nominal in turn."""
    yield base
    rng = random.Random(base.seed)
    for number in range(MORE_SPOILED):
        variation = base.variation if number % 2 else "nominal"
        yield replace(base, slot=f"{base.slot}-{number}", seed=rng.getrandbits(48), variation=variation)


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


def _inputs(problem: Problem, trial: Trial) -> Outputs:
    return contents.generate(problem, None, trial.sizes, trial.seed, trial.variation)


Answers = list[tuple[Trial, Outputs]]


def _accepted(problem: Problem, answers: Answers, expected: Mapping[str, Outputs]) -> bool:
    """Whether there are answers and every trial accepts them."""
    return bool(answers) and not any(
        differs(problem, trial.sizes, name, expected[trial.slot], answer)
        for trial, answer in answers
        for name in answer
    )


def _answers(
    problem: Problem,
    tried: Sequence[Trial],
    inputs: Mapping[str, Outputs],
    expected: Mapping[str, Outputs],
) -> Iterator[tuple[str, Answers]]:
    """Each wrong answer in words, with its outputs for each trial."""
    yield "zeros", [(t, {n: np.zeros_like(a) for n, a in expected[t.slot].items()}) for t in tried]
    constants = {n: _mean(a) for t in tried[:1] for n, a in expected[t.slot].items()}
    yield (
        "a constant",
        [(t, {n: _full(a, constants[n]) for n, a in expected[t.slot].items()}) for t in tried],
    )
    yield "a copy of an input", _copies(problem, tried, inputs, expected)
    yield "another seed's answer", list(_other_seeds(tried, inputs, expected))
    for name in output_names(problem):
        wrong = [(t, {name: _corrupted(problem, t, name, expected[t.slot])}) for t in tried]
        yield (
            f"{name} with one element in a hundred wrong",
            [(trial, {**expected[trial.slot], **answer}) for trial, answer in wrong],
        )


def _mean(array: Array) -> float:
    """The mean of the finite elements."""
    flat = widened(array).ravel()
    return float(np.mean(flat[np.isfinite(flat)])) if np.isfinite(flat).any() else 0.0


def _full(array: Array, value: float) -> Array:
    return np.full(array.shape, value).astype(array.dtype)


def _copies(
    problem: Problem, tried: Sequence[Trial], inputs: Mapping[str, Outputs], expected: Mapping[str, Outputs]
) -> Answers:
    """For each output a copy of an input that is accepted in its place; empty if an output has none."""
    found: Answers = []
    for name in output_names(problem):
        copies = (_copy(name, source, tried, inputs, expected) for source in problem.buffers)
        passing = next((answers for answers in copies if _accepted(problem, answers, expected)), None)
        if passing is None:
            return []
        found += passing
    return found


def _copy(
    name: str,
    source: str,
    tried: Sequence[Trial],
    inputs: Mapping[str, Outputs],
    expected: Mapping[str, Outputs],
) -> Answers:
    """An output's initial contents (`inout`), or an input of the same size, as the output of every trial.

    A sum over rows of one element is a copy, which says nothing about longer rows: so none where a trial's
    sizes differ.
    """
    found: Answers = []
    for trial in tried:
        array, start = expected[trial.slot][name], inputs[trial.slot].get(source)
        if start is None or (source != name and start.size != array.size):
            return []
        if source == name or array.size > 1:
            with np.errstate(invalid="ignore", over="ignore"):  # floats outside the integer type's range
                found.append((trial, {name: np.asarray(start).reshape(array.shape).astype(array.dtype)}))
    return found


def _other_seeds(
    tried: Sequence[Trial], inputs: Mapping[str, Outputs], expected: Mapping[str, Outputs]
) -> Iterator[tuple[Trial, Outputs]]:
    """Trials of the same sizes, each with another one's answer, where their inputs differ."""
    for at, one in enumerate(tried):
        for other in tried[at + 1 :]:
            if one.sizes == other.sizes and any(
                not np.array_equal(inputs[one.slot][name], inputs[other.slot][name])
                for name in inputs[one.slot]
            ):
                yield one, expected[other.slot]


def _corrupted(problem: Problem, trial: Trial, name: str, expected: Outputs) -> Array:
    """The output with one in a hundred (at least one) of its compared elements made clearly wrong."""
    array = expected[name]
    flat = array.copy().ravel()
    count = valid_count(problem, name, expected)
    count = flat.size if count is None else count
    rng = np.random.default_rng(trial.seed)
    picks = rng.choice(count, max(1, int(WRONG_SHARE * count)), replace=False) if count else np.zeros(0, int)
    if not is_float(problem.buffers[name].dtype):
        flat[picks] = ~flat[picks] if flat.dtype == bool else flat[picks] ^ 1
        return np.asarray(flat.reshape(array.shape))
    values = widened(flat)
    finite = values[np.isfinite(values)]
    size = float(np.sqrt(np.mean(finite**2))) if finite.size else 1.0
    flat[picks] = (values[picks] + np.maximum(np.abs(values[picks]), size or 1.0)).astype(flat.dtype)
    return np.asarray(flat.reshape(array.shape))
