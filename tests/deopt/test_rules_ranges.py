"""Bounds of integer expressions hold for every value that the expression can take."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kcurate.cuda_source.parse.items import tree_of
from kcurate.deopt.rules.ranges import Ranges

BLOCK = (6, 3, 1)
leaves = st.sampled_from(["threadIdx.x", "threadIdx.y", "i", "j", "W", "C", "0", "1", "3", "7u", "0x10"])


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = st.sampled_from(["+", "-", "*", "/", "%", "&", ">>", "<<"])
    return st.tuples(parts, signs, parts).map(lambda one: f"({one[0]} {one[1]} {one[2]})")


expressions = st.recursive(leaves, joined, max_leaves=5)
CODE = """
#define W (C / 2 + 1)
constexpr int C = 8;
__global__ void work(int n)
{{
    int j;
    for (int i = {first}; i < {limit}; i += {step})
        for (j = 0; j <= W; j++)
            use({expression});
}}
"""


def value(expression: str, names: dict[str, int]) -> int | None:
    """The expression's value; None where C would not give one (or a negative one, which is not followed)."""
    text = expression.replace("threadIdx.", "thread_").replace("/", "//").replace("7u", "7")
    try:
        found = eval(text, {"__builtins__": {}}, names)
    except (ZeroDivisionError, ValueError, OverflowError):
        return None
    return found if isinstance(found, int) else None


@settings(max_examples=150)
@given(expressions, st.integers(0, 4), st.integers(1, 12), st.integers(1, 5))
def test_bounds_hold(expression: str, first: int, limit: int, step: int) -> None:
    code = CODE.format(expression=expression, first=first, limit=limit, step=step)
    tree = tree_of(code.encode())
    (function,) = tree.functions()
    ((_, _, (argument,)),) = tree.calls(b"use")
    bounds = Ranges(tree, function, BLOCK).of(argument)
    if bounds is None:
        return
    for x in range(BLOCK[0]):
        for y in range(BLOCK[1]):
            for i in range(first, limit, step):
                for j in range(6):
                    names = {"thread_x": x, "thread_y": y, "i": i, "j": j, "W": 5, "C": 8}
                    got = value(expression, names)
                    assert got is None or bounds[0] <= got <= bounds[1]


def test_a_counter_ends_at_its_last_step() -> None:
    code = CODE.format(expression="i", first=0, limit=64, step=4).encode()
    tree = tree_of(code)
    ((_, _, (argument,)),) = tree.calls(b"use")
    assert Ranges(tree, tree.functions()[0], BLOCK).of(argument) == (0, 60)


def test_unknown_expressions_have_no_bounds() -> None:
    for expression in ("n", "n % 4", "blockIdx.x", "x[1]", "i - j", "f(i)"):
        code = CODE.format(expression=expression, first=0, limit=64, step=4).encode()
        tree = tree_of(code)
        ((_, _, (argument,)),) = tree.calls(b"use")
        assert Ranges(tree, tree.functions()[0], BLOCK).of(argument) is None, expression
