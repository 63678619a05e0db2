"""A side's own layout: the logical array there and back; padding is zero for the side and ignored after."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.problem.dtypes import numpy_dtype
from kcurate.problem.layout import to_logical, to_physical
from kcurate.problem.ops import BoundBuffer
from kcurate.problem.program import bind
from kcurate.records import Buffer, Launch, Problem, Side, Sizes, View

SIZES = {"r": 2, "c": 3}


def bound(view: View | None, shape: tuple[int | str, ...] = ("r", "c"), dtype: str = "int32") -> BoundBuffer:
    problem = Problem(Sizes((SIZES,), SIZES), {"x": Buffer(dtype, shape, role="inout")})
    side = Side("", (Launch("k", (1,), (1,)),), views={"x": view} if view else {})
    return bind(problem, side, SIZES).buffers["x"]


VALUES = np.arange(1, 7, dtype=np.int32).reshape(2, 3)


@pytest.mark.parametrize(
    ("view", "physical"),
    [
        (None, [[1, 2, 3], [4, 5, 6]]),
        (View(permute=(1, 0)), [[1, 4], [2, 5], [3, 6]]),
        (View(pad=((0, 1), (1, 0))), [[0, 1, 2, 3], [0, 4, 5, 6], [0, 0, 0, 0]]),
        (View(permute=(1, 0), pad=((0, 0), (0, "r"))), [[1, 4, 0, 0], [2, 5, 0, 0], [3, 6, 0, 0]]),
    ],
)
def test_what_a_side_sees(view: View | None, physical: list[list[int]]) -> None:
    buffer = bound(view)
    seen = to_physical(buffer, VALUES)
    assert seen.tolist() == physical
    assert seen.shape == buffer.physical
    assert seen.nbytes == buffer.size_bytes
    assert seen.flags.c_contiguous
    assert to_logical(buffer, seen.reshape(-1).view(np.uint8)).tolist() == VALUES.tolist()


def test_values_in_the_padding_are_dropped() -> None:
    buffer = bound(View(pad=((1, 1), (1, 1))))
    seen = to_physical(buffer, VALUES)
    seen[seen == 0] = 99
    assert to_logical(buffer, seen.reshape(-1).view(np.uint8)).tolist() == VALUES.tolist()


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_layout_round_trip(shape: list[int], data: st.DataObject) -> None:
    permute = data.draw(st.sampled_from(list(itertools.permutations(range(len(shape))))))
    pad = tuple(data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3))) for _ in shape)
    dtype = data.draw(st.sampled_from(["float32", "bfloat16", "uint8", "int64"]))
    buffer = bound(View(permute, pad), tuple(shape), dtype)
    values = np.arange(math.prod(shape)).reshape(shape).astype(numpy_dtype(dtype))
    back = to_logical(buffer, to_physical(buffer, values).reshape(-1).view(np.uint8))
    assert back.shape == tuple(shape)
    assert back.tobytes() == values.tobytes()
