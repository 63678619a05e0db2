"""C expressions to a problem's: the same value, and never more than a refusal on any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcurate.cuda_source.semantics.c_expressions import parse
from kcurate.draft.algebra import from_node
from kcurate.problem.expressions import evaluate

SIZES = {"n": 37, "m": 12, "k": 5}

leaves = st.sampled_from(["n", "m", "k", "1", "2", "7", "16"])
sums = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+*"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, st.sampled_from(["3", "8", "m"])).map(lambda p: f"({p[0]} / {p[1]})"),
        st.tuples(inner, st.sampled_from(["3", "8", "k"])).map(lambda p: f"({p[0]} % {p[1]})"),
        st.tuples(inner, st.sampled_from(["4", "k"])).map(lambda p: f"(({p[0]} + {p[1]} - 1) / {p[1]})"),
    ),
    max_leaves=8,
)


@given(sums)
def test_value_is_that_of_the_c_expression(text: str) -> None:
    node = parse(text)
    poly = from_node(node) if node else None
    assert poly is not None
    expected = eval(text.replace("/", "//"), {}, dict(SIZES))
    assert evaluate(poly.text(), SIZES) == expected


@given(st.text(alphabet="ab01 ()[]{}<>+-*/%.,?:&|!~^=\"';\n", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    node = parse(text)
    if node is not None:
        from_node(node)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("((i) + n*((j) + m*(k)))", "i + n*(j + m*k)"),  # no cast of `+n`
        ("(n) - 1", "n - 1"),
        ("(n * (m * k)) - n * 2", "n * (m * k) - n * 2"),  # no cast of `-n`
        (
            "(n * (m * (k * n))) * (n * (k & m)) + (n * (m * m)) - k",
            "n * (m * (k * n)) * (n * (k & m)) + n * (m * m) - k",
        ),
        ("i > (a) && j < b && k > (c)", "(i > a) && (j < b) && (k > c)"),
        ("n < 4 && m > (k)", "(n < 4) && (m > k)"),  # no template
        ("(size_t)n * 4", "((size_t)n) * 4"),
        ("std::min<int>(n, m)", "min(n, m)"),
        ("-2 * n", "(-2) * n"),
    ],
)
def test_brackets_and_comparisons_are_read_as_in_c(text: str, same: str) -> None:
    assert parse(text) is not None
    assert parse(text) == parse(same)
