"""Constants of a PyTorch side's text: found, replaced and joined without running it."""

from __future__ import annotations

import ast

import pytest

from kcurate.backends.torch_text import constants, joined, with_sizes
from kcurate.errors import ProblemError

TEXT = """\
n = 16 * 4
shape = (n, 7, 3 + 2)
flag = True
ratio = 0.5
m: int = 9
first = second = 3
a, b = 1, 2
c, (d, e) = 1, (2, 3)
if n:
    inner = 5


def f():
    local = 8
    return n + m, shape, a * b
"""


def run(tree: ast.Module) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(compile(tree, "<test>", "exec"), names)
    return names


def test_top_level_integers_are_found_and_nothing_else() -> None:
    assert constants(TEXT) == {"n": 64, "shape_1": 7, "shape_2": 5, "m": 9, "first": 3, "a": 1, "b": 2}


def test_sizes_take_their_place_where_they_are_used() -> None:
    names = run(with_sizes(TEXT, {"n": 2, "shape_2": 11, "m": 1, "b": 7, "unknown": 5}))
    assert callable(names["f"])
    assert names["f"]() == (3, (2, 7, 11), 7)


def test_joined_constants_change_together() -> None:
    text = joined("a = 4\nb = 4\nc = (4, 5)\n", ["a", "b", "c_0"])
    names = run(with_sizes(text, {"a": 9}))
    assert (names["b"], names["c"]) == (9, (9, 5))
    assert constants(text) == {"a": 4, "c_1": 5}


@pytest.mark.parametrize("text", ["def f(:", "a = 'b\n", "x" * (1 << 21)])
def test_text_that_is_not_python_is_reported(text: str) -> None:
    with pytest.raises(ProblemError):
        constants(text)


def test_division_by_zero_is_not_a_constant() -> None:
    assert constants("a = 4 // 0\nb = 9 // 2\n") == {"b": 4}
