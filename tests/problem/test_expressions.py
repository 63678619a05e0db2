"""Size expressions: exact integer arithmetic, parsed and never evaluated as Python."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.errors import ProblemError
from kcurate.problem.expressions import LIMIT, evaluate, names_in

NAMES = {"n": 7, "m": 128, "zero": 0, "k_1": -3}
Reading = tuple[str, Callable[[], int]]


def checked(value: int) -> int:
    if abs(value) > LIMIT:
        raise OverflowError
    return value


def combine(left: Reading, sign: str, right: Reading) -> Reading:
    python = {
        "+": lambda: left[1]() + right[1](),
        "-": lambda: left[1]() - right[1](),
        "*": lambda: left[1]() * right[1](),
        "/": lambda: left[1]() // right[1](),
        "%": lambda: left[1]() % right[1](),
    }[sign]
    return f"({left[0]} {sign} {right[0]})", lambda: checked(python())


LEAVES = st.one_of(
    st.integers(0, 1 << 40).map(lambda i: (str(i), lambda: i)),
    st.sampled_from(sorted(NAMES)).map(lambda name: (name, lambda: NAMES[name])),
)
READINGS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(combine, inner, st.sampled_from("+-*/%"), inner),
        inner.map(lambda a: (f"-{a[0]}", lambda: -a[1]())),
        st.builds(lambda a, b: (f"min({a[0]}, {b[0]})", lambda: min(a[1](), b[1]())), inner, inner),
        st.builds(lambda a, b: (f"max({a[0]},{b[0]})", lambda: max(a[1](), b[1]())), inner, inner),
    ),
    max_leaves=8,
)


@given(READINGS)
def test_values_are_those_of_exact_integer_arithmetic(reading: Reading) -> None:
    text, python = reading
    try:
        expected = python()
    except (ZeroDivisionError, OverflowError):
        with pytest.raises(ProblemError):
            evaluate(text, NAMES)
        return
    assert evaluate(text, NAMES) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("100 / 10 / 5", 2),
        ("2 * 7 % 4", 2),
        ("-7 / 2", -4),
        ("-7 % 2", 1),
        ("- - 3", 3),
        ("ceil_div(n, 2)", 4),
        ("ceil_div(m, 128)", 1),
        ("align_up(n, 16)", 16),
        ("align_up(m, 16)", 128),
        ("log2(m)", 7),
        ("log2(n)", 2),
        ("pow2(10)", 1024),
        ("min(n, m, 3)", 3),
        ("max(n, m, 3)", 128),
        ("n*m", 896),
        ("\tn ", 7),
    ],
)
def test_operators_and_functions(text: str, value: int) -> None:
    assert evaluate(text, NAMES) == value


def test_an_integer_is_itself() -> None:
    assert evaluate(-5, {}) == -5
    assert evaluate(json.loads("4.0"), {}) == 4
    assert names_in(json.loads("4.0")) == frozenset()
    with pytest.raises(ProblemError, match="beyond"):
        evaluate(LIMIT + 1, {})
    with pytest.raises(ProblemError, match="beyond"):
        evaluate(json.loads("1e300"), {})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "ends too early"),
        ("n +", "ends too early"),
        ("(n", "expected '\\)'"),
        ("n)", "unexpected '\\)'"),
        ("n n", "unexpected 'n'"),
        ("n ** 2", "expected"),
        ("1.5", "unexpected"),
        ("x + 1", "unknown name 'x'"),
        ("n / zero", "division by zero"),
        ("n % zero", "division by zero"),
        ("ceil_div(n, zero)", "division by zero"),
        ("align_up(n, zero)", "division by zero"),
        ("log2(zero)", "log2"),
        ("pow2(62)", "pow2"),
        ("pow2(-1)", "pow2"),
        ("log2(n, 2)", "takes 1 argument"),
        ("ceil_div(n)", "takes 2 arguments"),
        ("min(n)", "two or more"),
        ("sqrt(n)", "unknown function 'sqrt'"),
        ("__import__('os').system('true')", "unknown function '__import__'"),
        ("n.bit_length()", "unexpected"),
        ("n if n else m", "unexpected"),
        ("4611686018427387905", "beyond"),
        ("9" * 400, "beyond"),
        ("align_up(4611686018427387904, 4611686018427387903)", "beyond"),
        ("pow2(61) * 4", "beyond"),
        ("(" * 60 + "n" + ")" * 60, "nested too deeply"),
        ("-" * 60 + "n", "nested too deeply"),
        ("n" + "+1" * 400, "more than 500"),
        ("٣", "unexpected|expected"),
    ],
)
def test_errors_say_what_is_wrong(text: str, what: str) -> None:
    with pytest.raises(ProblemError, match=what):
        evaluate(text, NAMES)


def test_errors_say_where() -> None:
    with pytest.raises(ProblemError, match="at character 5 of 'n \\+ \\$'"):
        evaluate("n + $", NAMES)


def test_names_are_those_used() -> None:
    assert names_in("ceil_div(n, 16) * m + min(n, 2)") == {"n", "m"}
    assert names_in(3) == frozenset()


@given(st.text(max_size=40))
def test_any_text_is_a_number_or_a_problem_error(text: str) -> None:
    with contextlib.suppress(ProblemError):
        assert isinstance(evaluate(text, NAMES), int)
