"""Which constants are sizes, small values for them, and formulas; modules are plain arithmetic here."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.kernelbench import sizes
from kcurate.problem.expressions import evaluate


def convolution(values: Mapping[str, int]) -> tuple[int, ...] | None:
    """Input (batch, channels, width), output width, terms; four groups, kernel 5, stride 3."""
    batch, channels, width = values["batch"], values["channels"], values["width"]
    if channels % 4 or width < 5 or values["kernel"] > width:
        return None
    return batch, channels, width, (width - 5) // 3 + 1, channels * 5 // 4


CONSTANTS = {"batch": 16, "channels": 64, "width": 1000, "kernel": 5}
NAMES = ("batch", "channels", "width")


def test_sizes_are_the_constants_that_move_an_input() -> None:
    assert sizes.size_names(CONSTANTS, convolution, 3) == NAMES


def test_a_module_that_does_not_run_has_no_sizes() -> None:
    assert sizes.size_names({**CONSTANTS, "channels": 3}, convolution, 3) == ()


def test_settings_are_small_valid_and_different() -> None:
    bench = {name: CONSTANTS[name] for name in NAMES}

    def fits(values: Mapping[str, int]) -> bool:
        return convolution({"kernel": 5, **values}) is not None

    found = sizes.settings(NAMES, bench, fits, lambda values: values["batch"] * values["width"] < 2000)
    assert len(found) == 3
    assert all(fits(one) and one["channels"] <= 8 and one["batch"] <= 5 for one in found)
    assert {one["width"] for one in found} == {9, 263, 5}


def test_a_module_that_is_never_light_keeps_its_smallest_setting() -> None:
    assert sizes.settings(("n",), {"n": 64}, lambda _: True, lambda _: False) == ({"n": 2},)


def test_formulas_of_a_convolution() -> None:
    def numbers(values: Mapping[str, int]) -> tuple[int, ...] | None:
        return convolution({"kernel": 5, **values})

    bench = {name: CONSTANTS[name] for name in NAMES}
    seen = sizes.samples(NAMES, ({"batch": 3, "channels": 8, "width": 11}, bench), numbers)
    made = [sizes.formula(NAMES, [(values, shown[i]) for values, shown in seen]) for i in range(5)]
    assert made[:3] == ["batch", "channels", "width"]
    assert made[4] == "channels * 5 / 4"
    assert made[3] is not None
    for width in (5, 6, 7, 8, 100, 999, 12345):
        assert evaluate(made[3], {**bench, "width": width}) == (width - 5) // 3 + 1


@given(
    st.integers(1, 40),
    st.integers(-20, 200),
    st.sampled_from(["product", "square", "scaled", "constant", "areas"]),
)
def test_formulas_hold_beyond_what_was_seen(factor: int, shift: int, kind: str) -> None:
    def number(values: Mapping[str, int]) -> int:
        if kind == "product":
            return factor * values["a"] * values["c"]
        if kind == "areas":
            return factor * (values["a"] - 2) * ((values["c"] + 5) // 3)
        if kind == "square":
            return factor * values["b"] ** 2
        return factor * values["b"] + shift if kind == "scaled" else factor

    names = ("a", "b", "c")
    seen = sizes.samples(
        names, ({"a": 5, "b": 7, "c": 9}, {"a": 50, "b": 70, "c": 90}), lambda values: (number(values),)
    )
    made = sizes.formula(names, [(values, shown[0]) for values, shown in seen])
    assert made is not None
    for other in ({"a": 3, "b": 2, "c": 1}, {"a": 1000, "b": 999, "c": 77}):
        assert evaluate(made, other) == number(other)


@pytest.mark.parametrize("number", [lambda a, b: a + b, lambda a, b: a * a + b, lambda a, b: max(a, 17)])
def test_other_numbers_have_none(number: object) -> None:
    assert callable(number)
    names = ("a", "b")
    seen = sizes.samples(
        names, ({"a": 5, "b": 7}, {"a": 50, "b": 70}), lambda values: (number(values["a"], values["b"]),)
    )
    assert sizes.formula(names, [(values, shown[0]) for values, shown in seen]) is None
