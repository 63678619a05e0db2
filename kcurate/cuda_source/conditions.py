"""`#if` expressions, evaluated as the C++ standard says ([cpp.cond]): integers, `defined`, names are 0.

An expression that cannot be read (a function-like macro, `__has_include`) is false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_TOKEN = re.compile(
    rb"\s*(\d[\w.]*|[A-Za-z_]\w*|&&|\|\||==|!=|<=|>=|<<|>>|'(?:\\.|[^'])'|[-+*/%<>!~&|^()?:,])"
)
_NUMBER = re.compile(rb"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlLzZ]*\Z")
MAX_EXPANSIONS = 2000
MAX_DEPTH = 40

# Binary operators by rising precedence.
_LEVELS: tuple[tuple[bytes, ...], ...] = (
    (b"||",), (b"&&",), (b"|",), (b"^",), (b"&",), (b"==", b"!="), (b"<", b">", b"<=", b">="),
    (b"<<", b">>"), (b"+", b"-"), (b"*", b"/", b"%"),
)  # fmt: skip


class _UnreadableError(Exception):
    """The expression is not one that is understood here."""


def _shift(a: int, b: int, left: bool) -> int:
    if not 0 <= b < 64:
        raise _UnreadableError
    return a << b if left else a >> b


def _divide(a: int, b: int) -> int:
    if b == 0:
        raise _UnreadableError
    return int(a / b) if abs(a) < 2**50 else a // b


_OPERATIONS: Mapping[bytes, Callable[[int, int], int]] = {
    b"||": lambda a, b: int(bool(a) or bool(b)),
    b"&&": lambda a, b: int(bool(a) and bool(b)),
    b"|": lambda a, b: a | b,
    b"^": lambda a, b: a ^ b,
    b"&": lambda a, b: a & b,
    b"==": lambda a, b: int(a == b),
    b"!=": lambda a, b: int(a != b),
    b"<": lambda a, b: int(a < b),
    b">": lambda a, b: int(a > b),
    b"<=": lambda a, b: int(a <= b),
    b">=": lambda a, b: int(a >= b),
    b"<<": lambda a, b: _shift(a, b, True),
    b">>": lambda a, b: _shift(a, b, False),
    b"+": lambda a, b: a + b,
    b"-": lambda a, b: a - b,
    b"*": lambda a, b: (a * b) & (2**64 - 1) if abs(a * b) >= 2**63 else a * b,
    b"/": _divide,
    b"%": lambda a, b: a - _divide(a, b) * b,
}


def _tokens(text: bytes) -> list[bytes]:
    out, at = [], 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _UnreadableError
        out.append(match[1])
        at = match.end()
    return out


def _expand(
    tokens: list[bytes], macros: Mapping[bytes, bytes], hidden: frozenset[bytes], budget: list[int]
) -> list[bytes]:
    """Object-like macros replaced, `defined` answered."""
    out: list[bytes] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        budget[0] -= 1
        if budget[0] < 0 or len(hidden) > MAX_DEPTH:
            raise _UnreadableError
        at += 1
        if token == b"defined":
            bracket = at < len(tokens) and tokens[at] == b"("
            at += bracket
            if at >= len(tokens):
                raise _UnreadableError
            out.append(b"1" if tokens[at] in macros else b"0")
            at += 1 + bracket
        elif token in macros and token not in hidden:
            out += _expand(_tokens(macros[token]), macros, hidden | {token}, budget)
        else:
            out.append(token)
    return out


class _Parser:
    def __init__(self, tokens: list[bytes]) -> None:
        self.tokens, self.at, self.depth = tokens, 0, 0

    def peek(self) -> bytes:
        return self.tokens[self.at] if self.at < len(self.tokens) else b""

    def whole(self) -> int:
        value = self.ternary()
        if self.at != len(self.tokens):
            raise _UnreadableError
        return value

    def ternary(self) -> int:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _UnreadableError
        value = self.binary(0)
        if self.peek() == b"?":
            self.at += 1
            yes = self.ternary()
            self.take(b":")
            no = self.ternary()
            value = yes if value else no
        self.depth -= 1
        return value

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            operation = _OPERATIONS[self.peek()]
            self.at += 1
            value = operation(value, self.binary(level + 1))
        return value

    def unary(self) -> int:
        token = self.peek()
        self.at += 1
        if token in (b"!", b"-", b"+", b"~"):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise _UnreadableError
            value = self.unary()
            self.depth -= 1
            return {b"!": int(not value), b"-": -value, b"+": value, b"~": ~value}[token]
        if token == b"(":
            value = self.ternary()
            self.take(b")")
            return value
        if match := _NUMBER.match(token):
            digits = match[1]
            return (
                int(digits, 8)
                if digits.isdigit() and digits[:1] == b"0" and len(digits) > 1
                else int(digits, 0)
            )
        if token == b"true":
            return 1
        if token[:1].isalpha() or token[:1] == b"_":
            return 0
        raise _UnreadableError

    def take(self, wanted: bytes) -> None:
        if self.peek() != wanted:
            raise _UnreadableError
        self.at += 1


def truth(expression: bytes, macros: Mapping[bytes, bytes]) -> bool:
    """Whether `#if expression` holds; comments are gone from it already."""
    try:
        return bool(_Parser(_expand(_tokens(expression), macros, frozenset(), [MAX_EXPANSIONS])).whole())
    except (_UnreadableError, ValueError):
        return False
