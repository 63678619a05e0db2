"""Wrong answers and spoiled inputs that a problem must refuse, and honest problems that must be admitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kcurate.judge.negative_controls import MORE_SEEDS, blindness, spoiling, weakness
from kcurate.judge.trials import Trial, largest, trials
from kcurate.problem.inputs import contents
from kcurate.records import Buffer, Init, Problem, Sizes, Tolerance

Array = npt.NDArray[Any]
Compute = Callable[[Mapping[str, Array]], dict[str, Array]]


def problem(x: Buffer, y: Buffer, test: tuple[int, ...] = (300, 64), **more: Buffer) -> Problem:
    sizes = tuple({"n": n} for n in test)
    return Problem(Sizes(sizes, {"n": 1 << 20}), {"x": x, "y": y, **more})


def runs(what: Problem, compute: Compute) -> Callable[[Trial], dict[str, Array]]:
    """A reference: its outputs for a trial."""

    def run(trial: Trial) -> dict[str, Array]:
        made = compute(contents.generate(what, None, trial.sizes, trial.seed, trial.variation))
        return {name: array.astype(what.buffers[name].dtype) for name, array in made.items()}

    return run


def found_weakness(what: Problem, compute: Compute, seed: int, *, more: bool = True) -> str | None:
    run = runs(what, compute)
    tried = list(trials(what, seed))
    return weakness(what, tried, {trial.slot: run(trial) for trial in tried}, run if more else None)


def found_blindness(what: Problem, compute: Compute, seed: int = 1) -> str | None:
    run = runs(what, compute)
    tried = list(trials(what, seed))
    expected = {trial.slot: run(trial) for trial in tried}
    return blindness(what, largest(what, tried), spoiling(what, expected, run, lambda _: True))


BITS = Buffer("int32", ("n",), Init("integers", {"low": 0, "high": 2}))
ANSWER = Buffer("int32", (1,), role="out")


def parity(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {"y": arrays["x"].sum(keepdims=True) % 2}


def test_one_bit_is_answer_enough() -> None:
    what = problem(BITS, ANSWER)
    assert any(found_weakness(what, parity, seed, more=False) for seed in range(40))
    assert not any(found_weakness(what, parity, seed) for seed in range(300))


def test_an_answer_that_is_always_the_same_is_refused_after_all_seeds() -> None:
    what, seen = problem(BITS, ANSWER), []

    def one(arrays: Mapping[str, Array]) -> dict[str, Array]:
        seen.append(1)
        return {"y": np.ones(1)}

    assert found_weakness(what, one, 1) == "a constant"
    assert len(seen) == len(list(trials(what, 1))) + MORE_SEEDS


def test_a_reference_that_fails_on_another_seed_leaves_the_control_undecided() -> None:
    what = problem(BITS, ANSWER)
    tried = list(trials(what, 1))
    ones = {"y": np.ones(1, np.int32)}
    assert weakness(what, tried, {trial.slot: ones for trial in tried}, lambda _: None) == "a constant"


def floats(**init: float) -> Buffer:
    return Buffer("float32", ("n",), Init("uniform", dict(init)))


def total(terms: int | str = "n", **rule: Any) -> Buffer:
    return Buffer("float32", (1,), role="out", tolerance=Tolerance(terms=terms, **rule))


def summed(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {"y": arrays["x"].sum(keepdims=True, dtype=np.float64)}


@pytest.mark.parametrize("length", [300, 1 << 14, 1 << 18, 1 << 21])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 2), (0.5, 1.5)])
def test_a_long_sum_notices_spoiled_inputs(length: int, low: float, high: float) -> None:
    what = problem(floats(low=low, high=high), total(), (64, length))
    assert found_blindness(what, summed) is None


def test_a_tolerance_for_more_terms_than_there_are_is_refused() -> None:
    what = problem(floats(), total(1 << 40))
    run = runs(what, summed)
    tried = list(trials(what, 1))
    expected = {trial.slot: run(trial) for trial in tried}
    loose = blindness(what, largest(what, tried), spoiling(what, expected, run, lambda _: False))
    assert loose == "inputs rounded to the next narrower type"


def test_an_input_that_hardly_matters_is_refused() -> None:
    def faint(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": arrays["x"][:1] + 1e-5 * arrays["big"].mean(keepdims=True)}

    big = Buffer("float32", ("2 * n",), Init("uniform"))
    what = problem(floats(low=1, high=2), total(), big=big)
    assert found_blindness(what, faint) == "a tenth of big set to zero"


@pytest.mark.parametrize(
    ("x", "y", "compute"),
    [
        (floats(), ANSWER, lambda arrays: {"y": arrays["x"].argmax(keepdims=True)}),
        (Buffer("float32", ("n",), Init("permutation")), total(), lambda arrays: {"y": np.full(1, 3.0)}),
        (Buffer("float32", ("n",), Init("one_hot")), total(), summed),
        (floats(), Buffer("float32", ("n",), role="out"), lambda arrays: {"y": 1.0 + 0 * arrays["x"]}),
        (BITS, ANSWER, parity),
        (floats(), total(relative=0.02), summed),
    ],
)
def test_changes_that_make_no_difference_are_no_weakness(x: Buffer, y: Buffer, compute: Compute) -> None:
    assert found_blindness(problem(x, y), compute) is None


def test_an_undecided_change_is_tried_on_other_seeds() -> None:
    """The largest of many values is in the zeroed tenth for some seed; rounding shows it at once."""
    what = problem(floats(), Buffer("float32", (1,), role="out"), (300,))

    def largest_value(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {"y": arrays["x"].max(keepdims=True)}

    assert not any(found_blindness(what, largest_value, seed) for seed in range(50))


def test_a_reference_that_fails_on_spoiled_inputs_refuses_them() -> None:
    what = problem(floats(), total(1 << 40))
    run = runs(what, summed)

    def failing(trial: Trial) -> dict[str, Array] | None:
        return None if "/" in trial.variation else run(trial)

    base = largest(what, list(trials(what, 1)))
    assert blindness(what, base, spoiling(what, {}, failing, lambda _: False)) is None


def test_structured_inputs_run_at_the_largest_test_size() -> None:
    what = problem(floats(), total(), (300, 5000, 64))
    slots = [trial.slot for trial in trials(what, 1)]
    assert slots == [
        "test0-nominal", "test0-shifted", "test0-wide", "test0-structured", "test1-nominal",
        "test1-structured", "test2-nominal", "test0-again",
    ]  # fmt: skip
    assert largest(what, list(trials(what, 1))).slot == "test1-structured"
    unvaried = replace(what, buffers={**what.buffers, "x": BITS})
    assert largest(unvaried, list(trials(unvaried, 1))).slot == "test1-nominal"
