"""Values are recognised by what they look like; nothing is taken for what it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kcurate.kernelbench import values
from kcurate.records import Init

Array = npt.NDArray[Any]
SEEDS = range(3)


def seen(make: object) -> list[Array]:
    assert callable(make)
    return [np.asarray(make(np.random.default_rng(seed)), np.float32) for seed in SEEDS]


def softmax(rows: Array) -> Array:
    powers = np.exp(rows)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


KINDS = {
    "uniform": lambda rng: rng.random((50, 60)),
    "rescaled": lambda rng: rng.random() * rng.random((50, 60)),
    "normal": lambda rng: rng.standard_normal((50, 60)),
    "signs": lambda rng: 2 * rng.integers(0, 2, 400) - 1,
    "shares": lambda rng: softmax(rng.random((50, 60))),
    "symmetric": lambda rng: (lambda a: (a + a.T) / 2)(rng.random((40, 40))),
    "triangle": lambda rng: np.triu(rng.random((40, 40))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_recognised(kind: str) -> None:
    found = values.input_init(seen(KINDS[kind]), None)
    assert found is not None
    assert found.kind == kind


def test_the_side_of_a_triangle_is_recognised() -> None:
    found = values.input_init(seen(lambda rng: np.tril(rng.random((40, 40)))), None)
    assert found == Init("triangle", {"part": "lower"})


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: rng.random((50, 60)) ** 4,
        lambda rng: 5 + 3 * rng.random((50, 60)),
        lambda rng: rng.exponential(size=(50, 60)),
        lambda rng: rng.random(7),
    ],
    ids=["powers", "another range", "exponential", "too few"],
)
def test_what_is_not_recognised_is_no_guess(make: object) -> None:
    assert values.input_init(seen(make), None) is None


def test_integers_need_bounds_and_flags_none() -> None:
    indices = [np.arange(300) % 7]
    assert values.input_init(indices, None) is None
    assert values.input_init(indices, (0, "n")) == Init("integers", {"low": 0, "high": "n"})
    assert values.input_init([indices[0] > 2], None) == Init("integers", {"low": 0, "high": 2})


def test_only_plain_uniform_inputs_are_made_harder() -> None:
    assert values.harder(values.UNIFORM, product=False)[:2] == (values.HARDER, values.BOTH_SIGNS)
    assert values.harder(values.UNIFORM, product=False)[-1] == values.UNIFORM
    assert values.harder(values.UNIFORM, product=True) == (values.NEAR_ONE, values.UNIFORM)
    assert values.harder(Init("signs"), product=False) == (Init("signs"),)


def test_weights_keep_their_spread_and_say_something() -> None:
    spread = np.random.default_rng(1).uniform(-0.03, 0.03, (64, 9)).astype(np.float32)
    assert values.state_init(spread) == Init("uniform", {"low": -0.03, "high": 0.03})
    assert values.state_init(np.ones(5, np.float32)) == values.AROUND_ONE
    assert values.state_init(np.zeros(5, np.float32)) == values.AROUND_ZERO
    assert values.state_init(np.array([2.0, 2.52, 3.49])) == Init("uniform", {"low": 2.0, "high": 3.5})
    assert values.state_init(np.full(5, 3.0, np.float32)) is None
    assert values.state_init(np.zeros(1, np.int64)) is None
