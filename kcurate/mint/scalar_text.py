"""Scalar expressions of operators, and their text in C++ and in words.

An expression is Python syntax: arithmetic, comparisons, `&`, `|`, `a if c else b`, the functions of `C_NAMES`,
bare operands, and subscripts. Not covered: what the names mean (`kcurate.mint.graph.Operator`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache

# Functions of expressions, and the C++ that computes them in float32.
C_NAMES = {
    "exp": "expf", "log": "logf", "log1p": "log1pf", "expm1": "expm1f", "sqrt": "sqrtf", "rsqrt": "rsqrtf",
    "tanh": "tanhf", "sin": "sinf", "cos": "cosf", "erf": "erff", "abs": "fabsf", "floor": "floorf",
    "round": "rintf", "max": "fmaxf", "min": "fminf",
}  # fmt: skip
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "/", ast.Mod: "%", ast.BitAnd: "&&",
    ast.BitOr: "||",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip

# The text of a name, and of `name[subscripts]`, where the subscripts are text already (`...` among them).
NameText = Callable[[str], str]
ElementText = Callable[[str, tuple[str, ...]], str]


@lru_cache(maxsize=4096)
def parsed(expression: str) -> ast.expr:
    """The tree of an expression."""
    return ast.parse(expression, mode="eval").body


def names_of(expression: str) -> set[str]:
    """The names that an expression uses."""
    return {node.id for node in ast.walk(parsed(expression)) if isinstance(node, ast.Name)}


def c_text(expression: str, name: NameText, element: ElementText) -> str:
    """The expression in C++; `name` and `element` give the text of names and of subscripts."""
    return _C(name, element).text(parsed(expression))


class _C:
    def __init__(self, name: NameText, element: ElementText) -> None:
        self.name, self.element = name, element

    def text(self, node: ast.expr, *, inside: bool = False) -> str:
        """`inside`: an operand of something, so that it needs parentheses."""
        text = self._plain(node)
        compound = isinstance(node, ast.BinOp | ast.Compare | ast.IfExp)
        return f"({text})" if inside and compound else text

    def _plain(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=value):
                return c_number(value)
            case ast.Name(id=name):
                return self.name(name)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                return self.element(name, tuple(self._subscript(part) for part in parts))
            case ast.UnaryOp(operand=operand):
                return f"-{self.text(operand, inside=True)}"
            case ast.BinOp(left=left, op=op, right=right):
                return f"{self.text(left, inside=True)} {_BINARY[type(op)]} {self.text(right, inside=True)}"
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return f"{self.text(left, inside=True)} {_COMPARE[type(op)]} {self.text(right, inside=True)}"
            case ast.IfExp(test=test, body=body, orelse=other):
                return " ".join(
                    (
                        self.text(test, inside=True),
                        "?",
                        self.text(body, inside=True),
                        ":",
                        self.text(other, inside=True),
                    )
                )
            case ast.Call(func=ast.Name(id="size"), args=[ast.Name(id=axis)]):
                return self.name(f"size({axis})")
            case ast.Call(func=ast.Name(id=function), args=arguments):
                return f"{C_NAMES[function]}({', '.join(map(self.text, arguments))})"
        raise ValueError(f"not an expression of operators: {ast.unparse(node)}")

    def _subscript(self, node: ast.expr) -> str:
        return "..." if isinstance(node, ast.Constant) and node.value is ... else self.text(node)


def c_number(value: object) -> str:
    """A number in C++: integers as they are, others in float32."""
    if isinstance(value, int):
        return str(value)
    return f"{value!r}f" if value not in (float("inf"), float("-inf")) else f"{'-' * (value < 0)}INFINITY"  # type: ignore[operator]
