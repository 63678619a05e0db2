"""Each planted mistake is accepted by a problem that is too weak for it, and refused by one that is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kcurate.judge.negative_controls import passes
from kcurate.judge.planted_answers import ALONG, MISTAKES, planted
from kcurate.judge.trials import Trial, Tried, trials
from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.inputs import contents
from kcurate.records import Buffer, Init, Problem, Sizes, Tolerance

# So many terms that a float32 may be off by a thousand times its size.
ANYTHING = 1 << 60
SIZES = Sizes(({"rows": 7, "cols": 37}, {"rows": 20, "cols": 64}), {"rows": 1 << 10, "cols": 1 << 10})
KINDS = [
    *(f"y with {what}" for what in MISTAKES),
    *(f"y with {what} along axis {axis}" for what in ALONG for axis in (0, 1)),
    "y with one row rounded to the next narrower type",
    "y with one element in a hundred wrong",
    "another seed's answer in y",
    "a copy of x in y",
    "the first half of y only, then a copy of x",
]


def problem(dtype: str = "float32", **rule: Any) -> Problem:
    """`y` of `x`, both (rows, cols), of either sign."""
    x = Buffer("float32", ("rows", "cols"), Init("uniform", {"low": -1.0, "high": 2.0}))
    y = Buffer(dtype, ("rows", "cols"), role="out", tolerance=Tolerance(**rule))
    return Problem(SIZES, {"x": x, "y": y})


def tried(what: Problem, seed: int = 1) -> Tried:
    """Every trial, with y = x + sin(x) + 0.1."""

    def outputs(trial: Trial) -> Mapping[str, Any]:
        x = contents.generate(what, None, trial.sizes, trial.seed, trial.variation)["x"].astype(np.float64)
        return {"y": (x + np.sin(x) + 0.1).astype(numpy_dtype(what.buffers["y"].dtype))}

    series = list(trials(what, seed))
    return Tried(what, series, {trial.slot: outputs(trial) for trial in series})


def accepted(known: Tried) -> set[str]:
    return {plant.label for plant in planted(known) if passes(known, plant, known.trials)}


WEAK = accepted(tried(problem(terms=ANYTHING)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tolerance_that_allows_anything_is_too_weak(kind: str) -> None:
    assert kind in WEAK


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("seed", range(3))
def test_an_honest_tolerance_is_weak_for_none(dtype: str, seed: int) -> None:
    accumulate = "float32" if dtype in ("float16", "bfloat16") else None
    assert accepted(tried(problem(dtype, accumulate=accumulate), seed)) == set()


def test_there_are_the_kinds_that_the_list_says() -> None:
    known = tried(problem())
    assert len(set(KINDS)) >= 12
    assert {plant.label for plant in planted(known)} == {
        *KINDS, "zeros", "a constant", "another seed's answer", "outputs left as they were",
    }  # fmt: skip


def test_an_answer_of_one_sign_is_right_whatever_an_extremum_starts_at() -> None:
    known = tried(problem(terms=ANYTHING))
    for trial in known.trials:
        known.expected[trial.slot] = {"y": np.abs(known.expected[trial.slot]["y"]) + 1}
    kinds = accepted(known)
    assert "y with a maximum that starts at 0" not in kinds
    assert "y with absolute values" not in kinds
    assert "y with a minimum that starts at 0" in kinds


def test_neighbours_that_are_equal_are_not_swapped() -> None:
    known = tried(problem(terms=ANYTHING))
    for trial in known.trials:
        rows = known.expected[trial.slot]["y"].mean(axis=1, keepdims=True)
        known.expected[trial.slot] = {"y": np.repeat(rows, trial.sizes["cols"], axis=1)}
    kinds = accepted(known)
    assert "y with neighbours swapped along axis 1" not in kinds
    assert "y with a shift by one along axis 1" not in kinds
    assert "y with neighbours swapped along axis 0" in kinds


def test_an_output_that_is_left_as_it_was_is_wrong_even_where_that_is_right() -> None:
    what = problem()
    same = replace(what.buffers["x"], role="inout")
    known = Tried(Problem(SIZES, {"x": same}), list(trials(what, 1)), {})
    for trial in known.trials:
        known.expected[trial.slot] = {"x": known.inputs(trial)["x"]}
    assert "outputs left as they were" in accepted(known)


def test_one_row_and_one_block_leave_the_rest() -> None:
    known = tried(problem())
    plants = {plant.label: plant for plant in planted(known)}
    narrowed = []
    for trial in known.trials:
        right = known.expected[trial.slot]["y"]
        for what, zeros in (
            ("missing", min(256, right.size // 2)),
            ("only", max(right.size - 256, right.size // 2)),
        ):
            block = plants[f"y with one block of 256 {what}"].answer(trial)
            assert block is not None
            assert zeros - 1 <= ((block["y"] == 0) & (right != 0)).sum() <= zeros + 1
        row = plants["y with one row rounded to the next narrower type"].answer(trial)
        assert row is not None
        narrowed.append(int((row["y"] != right).any(axis=1).sum()))
    assert max(narrowed) == 1
    assert sum(narrowed) > len(narrowed) / 2


def test_the_smallest_row_counts_where_rows_are_compared() -> None:
    """What is left at zero is the row of the least values that are not zero already."""
    known = tried(problem())
    trial = known.trials[0]
    right = known.expected[trial.slot]["y"]
    right[2], right[4] = 0, np.abs(right[4]) * 1e-3 + 1e-3
    plants = {plant.label: plant for plant in planted(known)}
    answer = plants["y with its smallest row left at zero"].answer(trial)
    assert answer is not None
    assert (answer["y"] != right).any(axis=1).nonzero()[0].tolist() == [4]
