"""Padded work is looked for on the side that may have been slowed down, and on no other."""

from __future__ import annotations

from dataclasses import replace

import pytest
import small

from kcurate.judge.admission import admit_plans, admit_sources, padded
from kcurate.judge.case import Case, Ruling
from kcurate.records import Candidate, Environment, Origin, Outcome
from kcurate.records.pair import SideName

ZERO = "+ 0.0f * x[i];"


def candidate(made: SideName | None, side: SideName) -> Candidate:
    """One side has a product with zero."""
    one = small.scaled()
    record = getattr(one, side)
    changed = replace(record, code=record.code.replace("x[i];", f"x[i] {ZERO}"))
    assert ZERO in changed.code
    origin = Origin("model" if made else "curated", made=made)
    return replace(one, origin=origin, **{side: changed})  # type: ignore[arg-type]


def checks(one: Candidate) -> list[str]:
    case = Case(one, "key", Environment("none", "none"))
    admit_plans(case)
    admit_sources(case)
    return case.checks


@pytest.mark.parametrize("made", ["slow", None])
def test_a_slow_side_with_sham_work_is_refused(made: SideName | None) -> None:
    with pytest.raises(Ruling, match=r"sham: a product with 0\.0") as found:
        checks(candidate(made, "slow"))
    assert found.value.outcome is Outcome.STATIC_REJECT
    assert found.value.side == "slow"


@pytest.mark.parametrize("made", ["slow", "fast", None])
def test_a_fast_side_may_keep_a_product_with_zero(made: SideName | None) -> None:
    assert ("sham" in checks(candidate(made, "fast"))) is (made != "fast")


def test_the_slow_side_that_a_fast_one_was_made_from_is_not_suspect() -> None:
    one = candidate("fast", "slow")
    assert padded(one) is None
    assert "sham" not in checks(one)


def test_names_that_look_reserved_are_a_sides_own() -> None:
    """Rodinia has `__temp_x__`; no compiler defines it."""
    one = small.scaled()
    odd = one.slow.code.replace("{", "{ int __temp_x__ = 0; (void)__temp_x__;", 1)
    assert "compilers" in checks(replace(one, slow=replace(one.slow, code=odd)))
    told = one.slow.code.replace("{", "{ int x = __OPTIMIZE__; (void)x;", 1)
    with pytest.raises(Ruling, match="__OPTIMIZE__ tells compilers apart"):
        checks(replace(one, slow=replace(one.slow, code=told)))
