"""Outputs that may come in any order: alone, or as records of several that belong together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kcurate.judge.agreement import differs, same_bits
from kcurate.problem.outputs import Checked, checked, with_companions
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


@pytest.mark.parametrize("shape", [("n", 2), ("n", 2, 2)])
@pytest.mark.parametrize("joined", [False, True])
def test_what_is_in_a_row_stays_together(shape: tuple[int | str, ...], joined: bool) -> None:
    rule = Tolerance(order="any")
    buffers = {name: Buffer("int32", shape, role="out", tolerance=rule) for name in ("first", "second")}
    what = Problem(Sizes((SIZES,), SIZES), buffers, records=(("first", "second"),) if joined else ())
    extent = (200, *shape[1:])
    plain = {name: RNG.integers(0, 9, extent).astype(np.int32) for name in buffers}
    whole, turned, apart = (
        {name: change(values) for name, values in plain.items()}
        for change in (lambda rows: rows[::-1], lambda rows: rows[:, ::-1], exchanged)
    )
    assert differs(what, SIZES, "first", plain, whole) is None
    assert same_bits(what, "first", plain, whole)
    for wrong in (turned, apart):
        assert differs(what, SIZES, "first", plain, wrong) is not None
        assert not same_bits(what, "first", plain, wrong)


def exchanged(rows: Array) -> Array:
    """Rows whose first members come from the neighbours."""
    torn = rows.copy()
    torn[:, 0] = np.roll(rows[:, 0], 1, 0)
    return torn


def test_values_in_any_order_are_a_multiset() -> None:
    rule = Tolerance(order="any")
    what = Problem(Sizes((SIZES,), SIZES), {"y": Buffer("int32", ("n",), role="out", tolerance=rule)})
    plain = RNG.permutation(200).astype(np.int32)
    assert differs(what, SIZES, "y", {"y": plain}, {"y": np.sort(plain)}) is None
    twice = np.sort(plain)
    twice[0] = twice[1]
    assert differs(what, SIZES, "y", {"y": plain}, {"y": twice}) is not None
