"""Scalar expressions of operators, and their text in C++.

An expression is Python syntax: arithmetic, comparisons, `&`, `|`, `a if c else b`, the functions of
`C_NAMES`, bare operands, and subscripts. Not covered: what the names mean (`kcurate.mint.graph.Operator`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache

# Functions of expressions, and the C++ that computes them in float32.
C_NAMES = {
    "exp": "expf", "log": "logf", "log1p": "log1pf", "expm1": "expm1f", "sqrt": "sqrtf", "rsqrt": "rsqrtf",
    "tanh": "tanhf", "sin": "sinf", "cos": "cosf", "erf": "erff", "abs": "fabsf", "floor": "floorf",
    "round": "rintf", "max": "fmaxf", "min": "fminf",
}  # fmt: skip
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "/", ast.Mod: "%", ast.BitAnd:
    "&&", ast.BitOr: "||",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip

# The text of a name, and of `name[subscripts]`, where the subscripts are text already (`...` among them).
NameText = Callable[[str], str]
ElementText = Callable[[str, tuple[str, ...]], str]


@lru_cache(maxsize=4096)
def parsed(expression: str) -> ast.expr:
    """The parsed expression; cached, so it must not be modified."""
    return ast.parse(expression, mode="eval").body


def c_text(expression: str, name: NameText, element: ElementText) -> str:
    """The expression in C++; `name` and `element` give the text of a name and of a subscripted operand."""
    return c_text_of(parsed(expression), name, element)


def c_text_of(tree: ast.expr, name: NameText, element: ElementText) -> str:
    """A parsed expression in C++."""
    return _C(name, element).text(tree).replace(" + -", " - ")


# The precedence of operators in C++; those not listed bind tighter (see `precedence`).
_LEVELS = {"IfExp": 1, "BitOr": 2, "BitAnd": 3, "Compare": 4, "Add": 6, "Sub": 6}


def precedence(node: ast.expr, levels: Mapping[str, int]) -> int:
    """The precedence of an expression's outermost operator; `levels`: those of a language, higher binds
    tighter."""
    if isinstance(node, ast.BinOp):
        return levels.get(type(node.op).__name__, 7)
    return levels.get(type(node).__name__, 9)


class _C:
    def __init__(self, name: NameText, element: ElementText) -> None:
        self.name, self.element = name, element

    def text(self, node: ast.expr, outer: int = 0) -> str:
        """The text, in parentheses if its precedence is below `outer`, that of the operator around it."""
        text = self._plain(node)
        return f"({text})" if precedence(node, _LEVELS) < outer else text

    def _plain(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=value):
                return c_number(value)
            case ast.Name(id=name):
                return self.name(name)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                return self.element(name, tuple(self._subscript(part) for part in parts))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self.text(operand, 8)}"
            case ast.BinOp(left=left, op=op, right=right):
                tight = precedence(node, _LEVELS)
                return f"{self.text(left, tight)} {_BINARY[type(op)]} {self.text(right, tight + 1)}"
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return f"{self.text(left, 5)} {_COMPARE[type(op)]} {self.text(right, 5)}"
            case ast.IfExp(test=test, body=body, orelse=other):
                branches = f"{self.text(body, 2)} : {self.text(other, 2)}"
                return f"{self.text(test, 2)} ? {branches}"
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
    return f"{value!r}f" if value not in (float("inf"), float("-inf")) else f"{'-' * (value < 0)}INFINITY"
