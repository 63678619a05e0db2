"""Outputs that may come in any order: alone, or as records of several that belong together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kcurate.judge.agreement import differs, same_bits
from kcurate.problem.outputs import Checked, checked, record_axes, with_companions
from kcurate.records import Buffer, Problem, Side, Sizes, Tolerance

Array = np.ndarray[Any, np.dtype[Any]]
SIZES = {"n": 200, "w": 3}
RNG = np.random.default_rng(8)


def problem(valid: str | None = None, *, joined: bool = True) -> Problem:
    """Keys, values and rows of three numbers that belong together, and how many there are."""
    rule = Tolerance(order="any", valid=valid)
    buffers = {
        "values": Buffer("float32", ("n",), role="out", tolerance=rule),
        "keys": Buffer("int32", ("n",), role="out", tolerance=rule),
        "rows": Buffer("bfloat16", ("n", "w"), role="out", tolerance=rule),
        "count": Buffer("int32", (1,), role="out"),
    }
    records = (("values", "keys", "rows"),) if joined else ()
    return Problem(Sizes((SIZES,), SIZES), buffers, records=records)


def outputs(count: int = 200) -> dict[str, Array]:
    """Keys with many twins, so that values decide between them."""
    import ml_dtypes

    return {
        "values": RNG.standard_normal(200).astype(np.float32),
        "keys": RNG.integers(0, 20, 200).astype(np.int32),
        "rows": RNG.standard_normal((200, 3)).astype(ml_dtypes.bfloat16),
        "count": np.array([count], np.int32),
    }


def moved(plain: dict[str, Array], order: Array, *names: str) -> dict[str, Array]:
    return {name: values[order] if name in names else values for name, values in plain.items()}


@pytest.mark.parametrize("named", ["values", "keys", "rows"])
@pytest.mark.parametrize("torn", [("keys",), ("values",), ("rows",), ("keys", "rows")])
def test_records_may_come_in_any_order_but_not_be_torn_apart(torn: tuple[str, ...], named: str) -> None:
    plain, order = outputs(), RNG.permutation(200)
    whole, apart = moved(plain, order, "values", "keys", "rows"), moved(plain, order, *torn)
    assert differs(problem(), SIZES, named, plain, whole) is None
    assert same_bits(problem(), named, plain, whole)
    assert differs(problem(joined=False), SIZES, named, plain, apart) is None
    wrong = differs(problem(), SIZES, named, plain, apart)
    assert wrong is not None and wrong.startswith("records of values, keys, rows: ")
    assert not all(same_bits(problem(), name, plain, apart) for name in ("values", "keys", "rows"))


def test_values_of_records_may_round() -> None:
    plain, order = outputs(), RNG.permutation(200)
    plain["keys"] = np.arange(200, dtype=np.int32)
    whole = moved(plain, order, "values", "keys", "rows")
    whole["values"] = whole["values"] * np.float32(1 + 2e-7)
    assert differs(problem(), SIZES, "keys", plain, whole) is None
    whole["values"][5] *= np.float32(1.01)
    assert differs(problem(), SIZES, "keys", plain, whole) is not None


def test_only_the_valid_records_count() -> None:
    plain, order = outputs(120), np.r_[RNG.permutation(120), 120:200]
    whole = moved(plain, order, "values", "keys", "rows")
    for name in ("values", "keys", "rows"):
        whole[name][120:] = 0
        assert differs(problem("count"), SIZES, name, plain, whole) is None
        assert same_bits(problem("count"), name, plain, whole)
    assert differs(problem(), SIZES, "values", plain, whole) is not None
    whole["keys"][[3, 4]] = 77, 78
    assert differs(problem("count"), SIZES, "values", plain, whole) is not None


def test_a_member_whose_rounding_may_differ_has_the_whole_record_read_back() -> None:
    side = Side("", (), nondeterministic=("values",))
    found = checked(problem("count"), side)
    assert found == Checked(("count",), (), ("values", "keys", "rows"))
    assert with_companions(problem("count"), ["keys"]) == ["values", "keys", "rows", "count"]


def test_the_rows_of_wider_members_are_what_belongs_together() -> None:
    pair = [Buffer("int32", shape, role="out") for shape in (("b", "k", 2), ("b", "k"))]
    assert record_axes(pair) == 2
    assert record_axes(pair[:1]) == 3
    assert record_axes([Buffer("int32", ("n",)), Buffer("int32", ("2 * m",))]) == 1
