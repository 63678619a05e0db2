"""Tables of pointers: what is refused before anything runs, and where the pointers point."""

from __future__ import annotations

import numpy as np
import pytest

from kcurate.errors import ProblemError
from kcurate.problem.addresses import aimed, is_table
from kcurate.problem.inputs.contents import make
from kcurate.problem.program import bind
from kcurate.records import Buffer, Init, Launch, Problem, Side, Sizes

SIZES = {"n": 4, "m": 10}


def problem(fields: str, dtype: str = "uint64", width: int = 2) -> Problem:
    table = Buffer(dtype, ("n", width), Init("addresses", {"fields": fields}))
    return Problem(
        Sizes((SIZES,), SIZES),
        {
            "table": table,
            "x": Buffer("float64", ("n", "m"), Init("normal")),
            "y": Buffer("int8", ("n",), role="out"),
        },
    )


SIDE = Side("", (Launch("f", (1,), (1,), ("table",)),))


def test_a_member_is_a_buffers_place_or_a_number() -> None:
    one = problem("x i * m; = i + 4294967296 * m", width=2)
    buffers = bind(one, SIDE, SIZES).buffers
    offsets = make("table", one.buffers["table"], SIZES, 1)
    places = {"x": 1 << 40, "y": 7}
    table = aimed(buffers["table"], offsets, buffers, places.__getitem__)
    assert table.dtype == np.uint64 and table.shape == (4, 2)
    assert [int(v) - (1 << 40) for v in table[:, 0]] == [0, 80, 160, 240]
    assert [int(v) for v in table[:, 1]] == [(10 << 32) + i for i in range(4)]
    assert is_table(buffers["table"]) and not is_table(buffers["x"])


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ("z; y", "unknown buffer 'z'"),
        ("x i * m + 11; y", "offset 11..41 outside"),
        ("x -1; y", "offset -1..-1 outside"),
        ("x q; y", "q"),
        ("x; =", "not a member"),
        ("x; y; y", "3 fields"),
    ],
)
def test_a_table_that_points_nowhere_is_refused(fields: str, what: str) -> None:
    with pytest.raises(ProblemError, match="table") as caught:
        bind(problem(fields), SIDE, SIZES)
    assert what in str(caught.value)


def test_a_table_has_a_limit() -> None:
    huge = {"n": 1 << 20, "m": 10}
    with pytest.raises(ProblemError, match="at most 1048576"):
        bind(problem("x; y"), SIDE, huge)


def test_pointers_are_64_bit_inputs() -> None:
    with pytest.raises(ProblemError, match="uint64"):
        bind(problem("x; y", dtype="int32"), SIDE, SIZES)
