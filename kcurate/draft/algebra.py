"""Integer expressions as sums of products, so that equal sizes compare equal; and their text in problems.

A factor is a name, or an opaque term that is not a sum of products (`ceil_div(n, 256)`), kept as text. Not
covered: the values of names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.cuda_source.semantics.c_expressions import Node, is_real, parse, plain

Monomial = tuple[str, ...]
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_MIN_MAX = {"min": "min", "max": "max", "MIN": "min", "MAX": "max", "std_min": "min", "fmin": "min"}
_CEIL = frozenset(("ceil", "ceilf"))
_FLOOR = frozenset(("floor", "floorf"))
_CEIL_DIV = frozenset(("ceil_div", "cdiv"))


@dataclass(frozen=True)
class Poly:
    """A sum of products: coefficients keyed by sorted factors; the empty product is the constant term."""

    terms: Mapping[Monomial, int]

    @property
    def constant(self) -> int | None:
        """Its value if it has no names, else None."""
        if not self.terms:
            return 0
        return self.terms[()] if set(self.terms) == {()} else None

    def __add__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for key, value in other.terms.items():
            terms[key] = terms.get(key, 0) + value
        return Poly({key: value for key, value in terms.items() if value})

    def __neg__(self) -> Poly:
        return Poly({key: -value for key, value in self.terms.items()})

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        terms: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                key = tuple(sorted((*left, *right)))
                terms[key] = terms.get(key, 0) + a * b
        return Poly({key: value for key, value in terms.items() if value})

    def text(self) -> str:
        """As an expression in a problem."""
        if not self.terms:
            return "0"
        out = ""
        for key, value in sorted(self.terms.items(), key=lambda item: (-len(item[0]), item[0])):
            product = "*".join(key)
            size = abs(value)
            shown = product if size == 1 and product else f"{size}*{product}" if product else str(size)
            if out:
                out += f" {'-' if value < 0 else '+'} {shown}"
            else:
                out = f"-{shown}" if value < 0 else shown
        return out

    def expr(self) -> int | str:
        """As a value in a problem: a number, or an expression."""
        constant = self.constant
        return self.text() if constant is None else constant


def number(value: int) -> Poly:
    """A constant."""
    return Poly({(): value} if value else {})


def factor(text: str) -> Poly:
    """A single factor: a name, or an opaque term."""
    return Poly({(text,): 1})


def ceil_div(above: Poly, below: Poly) -> Poly:
    """The quotient, rounded up."""
    if above.constant is not None and below.constant:
        return number(-(-above.constant // below.constant))
    exact = _exact(above, below)
    return exact if exact is not None else factor(f"ceil_div({above.text()}, {below.text()})")


def quotient(above: Poly, below: Poly) -> Poly | None:
    """C division of non-negative numbers; `(n + b - 1) / b` becomes `ceil_div`. None: division by zero."""
    if below.constant == 0:
        return None
    if above.constant is not None and below.constant is not None:
        return number(above.constant // below.constant)
    exact = _exact(above, below)
    if exact is not None:
        return exact
    unrounded = above - below + number(1)
    if _smaller(unrounded, above) and unrounded.terms:
        return ceil_div(unrounded, below)
    return factor(f"({bracketed(above.text())}/{bracketed(below.text())})")


def _smaller(unrounded: Poly, above: Poly) -> bool:
    """Whether subtracting `below - 1` simplified the sum, which means that it was there to round up."""
    return (
        sum(map(abs, unrounded.terms.values())) < sum(map(abs, above.terms.values()))
        and all(value > 0 for value in unrounded.terms.values())
        and () not in unrounded.terms
    )


def bracketed(text: str) -> str:
    """An expression as an operand: in brackets, unless it is a name or a number."""
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def _exact(above: Poly, below: Poly) -> Poly | None:
    """The exact quotient if `below` is a single product that divides every term."""
    if len(below.terms) != 1:
        return None
    ((key, value),) = below.terms.items()
    out: dict[Monomial, int] = {}
    for term, count in above.terms.items():
        remaining = list(term)
        for name in key:
            if name not in remaining:
                return None
            remaining.remove(name)
        if count % value:
            return None
        out[tuple(remaining)] = count // value
    return Poly(out)


def from_node(node: Node) -> Poly | None:
    """The integer that a tree denotes; None if problem expressions cannot state it."""
    node = plain(node)
    if node.op == "num":
        value = float(node.text)
        is_integer = math.isfinite(value) and value == int(value) and abs(value) < 2**62
        return number(int(value)) if is_integer else None
    if node.op == "name":
        return factor(node.text) if _NAME.match(node.text) else None
    if node.op == "unary-":
        inner = from_node(node.args[0])
        return -inner if inner is not None else None
    if node.op == "call":
        return _call(node)
    if node.op not in ("+", "-", "*", "/", "%", "<<", ">>") or len(node.args) != 2:
        return None
    left, right = from_node(node.args[0]), from_node(node.args[1])
    if left is None or right is None:
        return _scaled(node)
    return _binary(node.op, left, right)


def of_text(text: str) -> Poly | None:
    """The integer that an expression denotes; None if it is not understood."""
    node = parse(text)
    return from_node(node) if node is not None else None


def _binary(operator: str, left: Poly, right: Poly) -> Poly | None:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/":
        return quotient(left, right)
    shift = right.constant
    if operator in ("<<", ">>"):
        if shift is None:
            power = factor(f"pow2({right.text()})")
            return left * power if operator == "<<" else None
        if not 0 <= shift < 62:
            return None
        return left * number(1 << shift) if operator == "<<" else quotient(left, number(1 << shift))
    if left.constant is not None and right.constant:
        return number(left.constant % right.constant)
    return factor(f"({bracketed(left.text())} % {bracketed(right.text())})") if right.constant != 0 else None


def _scaled(node: Node) -> Poly | None:
    """`n * 1.0` and the like: multiplication by a floating-point one."""
    left, right = (plain(arg) for arg in node.args)
    if node.op == "*":
        for constant, other in ((left, right), (right, left)):
            if constant.op == "num" and float(constant.text) == 1.0:
                return from_node(other)
    return None


def _call(node: Node) -> Poly | None:
    if node.text in _CEIL and len(node.args) == 1:
        inner = plain(node.args[0])
        if inner.op == "/":
            above, below = from_node(inner.args[0]), from_node(inner.args[1])
            if above is None or below is None or below.constant == 0:
                return None
            return ceil_div(above, below) if is_real(inner) else quotient(above, below)
        return from_node(inner)
    if node.text in _FLOOR and len(node.args) == 1:
        return from_node(node.args[0])
    parts = [from_node(arg) for arg in node.args]
    operands = [part for part in parts if part is not None]
    if len(operands) != len(parts) or len(operands) != 2:
        return None
    if node.text in _CEIL_DIV:
        return ceil_div(operands[0], operands[1]) if operands[1].constant != 0 else None
    if node.text in _MIN_MAX:
        function = _MIN_MAX[node.text]
        first, second = operands[0].constant, operands[1].constant
        if first is not None and second is not None:
            return number(min(first, second) if function == "min" else max(first, second))
        return factor(f"{function}({operands[0].text()}, {operands[1].text()})")
    return None


def real(node: Node) -> float | None:
    """The floating-point value of a tree of literals; None if it contains a name."""
    node = plain(node)
    if node.op == "num":
        return float(node.text)
    if node.op == "unary-":
        inner = real(node.args[0])
        return None if inner is None else -inner
    if node.op not in ("+", "-", "*", "/") or len(node.args) != 2:
        return None
    left, right = real(node.args[0]), real(node.args[1])
    if left is None or right is None or (node.op == "/" and right == 0):
        return None
    return {"+": left + right, "-": left - right, "*": left * right, "/": left / right if right else 0.0}[
        node.op
    ]
