"""Wrong answers that must fail: a problem whose tests accept one of them proves nothing.

They are zeros, a constant, a copy of an input, another seed's answer, and one element in a hundred wrong.
Each is compared with the reference's outputs at the test sizes exactly as a side is; one trial that rejects
it is enough. Not covered: the comparison (`kcurate.judge.agreement`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kcurate.judge.agreement import Outputs, differs, output_names, valid_count
from kcurate.judge.verifying import Trial
from kcurate.problem.compare import widened
from kcurate.problem.dtypes import is_float
from kcurate.problem.inputs import contents
from kcurate.records import Problem

WRONG_SHARE = 0.01

Array = npt.NDArray[Any]


def weakness(problem: Problem, tried: Sequence[Trial], expected: Mapping[str, Outputs]) -> str | None:
    """The first wrong answer that every trial accepts, in words; None when each fails some trial.

    `tried`: the trials that ran. `expected`: the reference's outputs by slot.
    """
    nominal = [trial for trial in tried if trial.variation == "nominal"]
    inputs = {t.slot: contents.generate(problem, None, t.sizes, t.seed, t.variation) for t in nominal}
    for what, answers in _answers(problem, nominal, inputs, expected):
        if _accepted(problem, answers, expected):
            return what
    return None


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
        [(t, {n: np.full_like(a, constants[n]) for n, a in expected[t.slot].items()}) for t in tried],
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
    """An output's initial contents (`inout`), or an input of the same size, as the output."""
    found: Answers = []
    for trial in tried:
        array, start = expected[trial.slot][name], inputs[trial.slot].get(source)
        if start is not None and (source == name or start.size == array.size > 1):
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
