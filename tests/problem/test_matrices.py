"""Generators of properties that a computation relies on."""

from __future__ import annotations

import numpy as np
import pytest

from kcurate.errors import ProblemError
from kcurate.problem.inputs.contents import make
from kcurate.records import Buffer, Init

SIZES = {"n": 40}


def values(
    kind: str, shape: tuple[int | str, ...] = ("n", "n"), seed: int = 1, **params: str | float
) -> np.ndarray:
    return make("x", Buffer("float32", shape, Init(kind, params)), SIZES, seed)


def test_a_symmetric_matrix_is_its_transpose() -> None:
    made = values("symmetric", (3, "n", "n"), low=2, high=5)
    assert np.array_equal(made, np.swapaxes(made, 1, 2))
    assert made.min() >= 2 and made.max() < 5 and np.unique(made).size > 1000


def test_a_triangle_is_zero_on_one_side_alone() -> None:
    upper, lower = values("triangle"), values("triangle", part="lower")
    assert not np.tril(upper, -1).any() and np.count_nonzero(upper) == 40 * 41 // 2
    assert np.array_equal(np.triu(lower, 1), np.zeros((40, 40))) and np.count_nonzero(lower) == 40 * 41 // 2


def test_signs_are_both() -> None:
    assert set(np.unique(values("signs"))) == {-1.0, 1.0}


def test_rescaled_values_differ_in_height_from_seed_to_seed() -> None:
    heights = [float(values("rescaled", ("n", 50), seed).max()) for seed in range(8)]
    assert max(heights) < 1.0
    assert max(heights) > 2 * min(heights)


def test_shares_sum_to_one() -> None:
    made = values("shares", ("n", 100))
    assert made.min() > 0
    np.testing.assert_allclose(made.sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("kind", ["symmetric", "triangle"])
def test_matrices_that_are_not_square_are_refused(kind: str) -> None:
    with pytest.raises(ProblemError, match="not equal"):
        values(kind, ("n", 3))


def test_unknown_triangle_parts_are_refused() -> None:
    with pytest.raises(ProblemError, match="unknown part"):
        values("triangle", part="left")
