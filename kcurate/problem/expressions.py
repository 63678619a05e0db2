"""The expression language of sizes: integer arithmetic, parsed and never `eval`ed.

    expression := term (("+" | "-") term)*        term := factor (("*" | "/" | "%") factor)*
    factor     := "-" factor | number | name | "(" expression ")"
                | function "(" expression ("," expression)* ")"

`/` and `%` round toward minus infinity, as in Python. Functions: `min`, `max` (two or more arguments),
`ceil_div(a, b)`, `align_up(a, b)`, `log2(a)` (rounded down), `pow2(a)`. Values are limited to 2**62 so that
no expression can exhaust memory.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from kcurate.errors import ProblemError
from kcurate.records import Expr

LIMIT = 1 << 62
MAX_LENGTH = 500
MAX_DEPTH = 50
_TOKEN = re.compile(r"\s*(?:([0-9]+)|([A-Za-z_]\w*)|(.))", re.ASCII)

Names = Mapping[str, int]
Node = Callable[[Mapping[str, Any]], Any]
Compute = Callable[..., Any]
# Number of arguments (None: two or more), and the function.
Functions = Mapping[str, tuple[int | None, Compute]]
Operators = Mapping[str, Callable[[Any, Any], Any]]


def _limited(value: int) -> int:
    if abs(value) > LIMIT:
        raise ProblemError("a value beyond 2**62")
    return value


def _log2(a: int) -> int:
    if a < 1:
        raise ProblemError("log2 of a number below one")
    return a.bit_length() - 1


def _pow2(a: int) -> int:
    if not 0 <= a < 62:
        raise ProblemError("pow2 of a number outside 0..61")
    return 1 << a


def _divisor(b: int) -> int:
    if b == 0:
        raise ProblemError("division by zero")
    return b


def language(
    least: Compute, most: Compute, log2: Compute, pow2: Compute, divisor: Compute
) -> tuple[Functions, Operators]:
    """The functions and operators over one kind of value; `divisor` refuses zero and returns other values."""
    functions: Functions = {
        "min": (None, least),
        "max": (None, most),
        "ceil_div": (2, lambda a, b: -(-a // divisor(b))),
        "align_up": (2, lambda a, b: -(-a // divisor(b)) * b),
        "log2": (1, log2),
        "pow2": (1, pow2),
    }
    operators: Operators = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": lambda a, b: a // divisor(b),
        "%": lambda a, b: a % divisor(b),
    }
    return functions, operators


FUNCTIONS, OPERATORS = language(min, max, _log2, _pow2, _divisor)


class _Parser:
    """Recursive descent over the tokens of one expression; builds a closure."""

    def __init__(
        self, text: str, functions: Functions, operators: Operators, limited: Callable[[Any], Any]
    ) -> None:
        if len(text) > MAX_LENGTH:
            raise ProblemError(f"an expression of more than {MAX_LENGTH} characters")
        self.functions, self.operators, self.limited = functions, operators, limited
        self.text = text
        self.tokens = [match for match in _TOKEN.finditer(text) if match.group().strip()]
        self.at = 0
        self.depth = 0
        self.used: set[str] = set()

    def fail(self, fault: str) -> ProblemError:
        position = (
            self.tokens[self.at].start(self.tokens[self.at].lastindex or 0) if self.more() else len(self.text)
        )
        return ProblemError(
            f"{fault} at character {position + 1} of {self.text!r}", hint="see docs/problems.md"
        )

    def more(self) -> bool:
        return self.at < len(self.tokens)

    def peek(self) -> str:
        return self.tokens[self.at].group().strip() if self.more() else ""

    def take(self, token: str) -> None:
        if self.peek() != token:
            raise self.fail(f"expected {token!r}")
        self.at += 1

    def whole(self) -> Node:
        node = self.sum()
        if self.more():
            raise self.fail(f"unexpected {self.peek()!r}")
        return node

    def sum(self) -> Node:
        return self.chain(("+", "-"), self.term)

    def term(self) -> Node:
        return self.chain(("*", "/", "%"), self.factor)

    def chain(self, signs: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        node = operand()
        while self.peek() in signs:
            sign = self.operators[self.peek()]
            self.at += 1
            node = self.binary(sign, node, operand())
        return node

    def factor(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail("nested too deeply")
        try:
            return self.atom()
        finally:
            self.depth -= 1

    def atom(self) -> Node:
        if not self.more():
            raise self.fail("the expression ends too early")
        match = self.tokens[self.at]
        number, name, sign = match.groups()
        if sign == "-":
            self.at += 1
            operand = self.factor()
            return lambda names: -operand(names)
        if sign is not None:
            self.take("(")
            node = self.sum()
            self.take(")")
            return node
        self.at += 1
        if number is not None:
            value = self.limited(int(number))
            return lambda _: value
        return self.call(name) if self.peek() == "(" else self.name(name)

    def name(self, name: str) -> Node:
        self.used.add(name)

        def look_up(names: Mapping[str, Any]) -> Any:
            if name not in names:
                raise ProblemError(
                    f"unknown name {name!r}", hint=f"known: {', '.join(sorted(names)) or 'none'}"
                )
            return names[name]

        return look_up

    def call(self, name: str) -> Node:
        if name not in self.functions:
            self.at -= 1
            raise self.fail(f"unknown function {name!r}")
        count, function = self.functions[name]
        self.take("(")
        arguments = [self.sum()]
        while self.peek() == ",":
            self.at += 1
            arguments.append(self.sum())
        self.take(")")
        if count is None and len(arguments) < 2:
            raise self.fail(f"{name} takes two or more arguments")
        if count is not None and len(arguments) != count:
            raise self.fail(f"{name} takes {count} argument{'s' * (count > 1)}")
        limited = self.limited
        return lambda names: limited(function(*(argument(names) for argument in arguments)))

    def binary(self, apply: Callable[[Any, Any], Any], left: Node, right: Node) -> Node:
        limited = self.limited
        return lambda names: limited(apply(left(names), right(names)))


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[Node, frozenset[str]]:
    parser = _Parser(text, FUNCTIONS, OPERATORS, _limited)
    return parser.whole(), frozenset(parser.used)


def compiled(text: str, functions: Functions, operators: Operators) -> Node:
    """An expression over values other than integers, such as arrays, as a function of its names.

    Raises:
        ProblemError: it cannot be parsed.
    """
    return _Parser(text, functions, operators, lambda value: value).whole()


def evaluate(expression: Expr, names: Names) -> int:
    """The value of an expression, given its names.

    Raises:
        ProblemError: it cannot be parsed, uses an unknown name, divides by zero, or leaves +-2**62.
    """
    if not isinstance(expression, str):
        if isinstance(expression, float) and not math.isfinite(expression):
            raise ProblemError(f"{expression} is not an integer")
        return _limited(int(expression))  # JSON may write an integer as 4.0
    value: int = _parse(expression)[0](names)
    return value


def names_in(expression: Expr) -> frozenset[str]:
    """The names that an expression uses (none for an integer).

    Raises:
        ProblemError: it cannot be parsed.
    """
    return _parse(expression)[1] if isinstance(expression, str) else frozenset()
