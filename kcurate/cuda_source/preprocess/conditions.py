"""Evaluates `#if` expressions by the C++ standard ([cpp.cond]); where that leaves a choice, as g++ does.

Integers are signed or unsigned, have 64 bits, and wrap: `#if -1 > 0u` holds. A name that no macro defines is
0. A syntax error, a float, or an evaluated division by zero raises. Not covered: macros of system headers,
which are not read. The best-known of them raise (`INT_MAX`), others count as 0.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcurate.cuda_source.preprocess.expansion import HasHeader, UnevaluatedError, expanded
from kcurate.cuda_source.text.tokens import IDENTIFIER

_INTEGER = re.compile(
    rb"(?:0[xX](?P<x>[\da-fA-F](?:'?[\da-fA-F])*)|0[bB](?P<b>[01](?:'?[01])*)|(?P<o>0(?:'?[0-7])*)|"
    rb"(?P<d>[1-9](?:'?\d)*))"
)
_SUFFIX = re.compile(rb"(?:[uU](?:ll?|LL?|[zZ])?|(?:ll?|LL?|[zZ])[uU]?)?")
_BASES = {"x": 16, "b": 2, "o": 8, "d": 10}
_CHARACTER = re.compile(rb"(u8|[uUL])?'(.+)'", re.DOTALL)
_CODE_UNIT = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[\da-fA-F]+)|(?P<named>[abefnrtv\\'\"?]))|[^\\]"
)
_ESCAPES = dict(zip("abefnrtv\\'\"?", b"\a\b\x1b\f\n\r\t\v\\'\"?", strict=True))
# Macros of headers that are not read. Their values are unknown, so 0 would be a guess.
_HEADER_MACROS = re.compile(
    rb"(?:[SU]?CHAR|U?SHRT|U?INT\d*|U?L?LONG|U?INTPTR|U?INTMAX|SIZE|PTRDIFF|RAND)_(?:MAX|MIN)|CHAR_BIT|"
    rb"__(?:BYTE_ORDER|LITTLE_ENDIAN|BIG_ENDIAN|GLIBC__|GLIBC_MINOR__)|"
    rb"(?:CUB|CUDNN|CUBLAS|CUSPARSE|CUFFT|NCCL|NPP|THRUST)_(?:MAJOR|VER|VERSION)\w*"
)
BITS = 64
# Levels of parentheses and unary operators; bounds the recursion of the parser.
MAX_NESTING = 150
# A longer integer literal is an error.
MAX_LITERAL_BYTES = 200


class _Value(NamedTuple):
    number: int
    unsigned: bool = False


# Operators, loosest binding first; all but `?` are left-associative.
_PRECEDENCE = (
    b",", b"?", b"||", b"&&", b"|", b"^", b"&", b"== !=", b"< > <= >=", b"<< >>", b"+ -", b"* / %",
)  # fmt: skip
_RANKS = {operator_text: rank for rank, texts in enumerate(_PRECEDENCE) for operator_text in texts.split()}
_COMPARISONS: Mapping[bytes, Callable[[int, int], bool]] = {
    b"==": operator.eq, b"!=": operator.ne, b"<": operator.lt, b">": operator.gt, b"<=": operator.le,
    b">=": operator.ge,
}  # fmt: skip
_ARITHMETIC: Mapping[bytes, Callable[[int, int], int]] = {
    b"+": operator.add, b"-": operator.sub, b"*": operator.mul, b"&": operator.and_, b"|": operator.or_,
    b"^": operator.xor,
}  # fmt: skip


def _wrap(number: int, unsigned: bool, bits: int = BITS) -> _Value:
    """The number wrapped to an integer of `bits` bits; sign-extended unless `unsigned`."""
    number &= (1 << bits) - 1
    return _Value(number - (1 << bits) if not unsigned and number >> (bits - 1) else number, unsigned)


def _binary(operator_text: bytes, a: _Value, b: _Value, skipped: bool) -> _Value:
    """The value of `a sign b`.

    `skipped`: whether short-circuit evaluation skips the expression; then only the type of the value matters,
    and a division by zero is no error.
    """
    if operator_text == b",":
        return b
    if operator_text in (b"&&", b"||"):
        return _Value(int(bool(a.number and b.number if operator_text == b"&&" else a.number or b.number)))
    if operator_text in (b"<<", b">>"):  # a negative count shifts the other way, as in g++
        count = b.number if operator_text == b"<<" else -b.number
        return _wrap(a.number << min(count, BITS) if count > 0 else a.number >> min(-count, BITS), a.unsigned)
    unsigned = a.unsigned or b.unsigned
    x, y = _wrap(a.number, unsigned).number, _wrap(b.number, unsigned).number
    if operator_text in _COMPARISONS:
        return _Value(int(_COMPARISONS[operator_text](x, y)))
    if operator_text in _ARITHMETIC:
        return _wrap(_ARITHMETIC[operator_text](x, y), unsigned)
    if y == 0:
        if skipped:
            return _Value(0, unsigned)
        raise UnevaluatedError("division by zero")
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return _wrap(quotient if operator_text == b"/" else x - quotient * y, unsigned)


def _integer(token: bytes) -> _Value:
    match = _INTEGER.match(token)
    suffix = token[match.end() :] if match else b"?"
    fits = _SUFFIX.fullmatch(suffix) and len(token) <= MAX_LITERAL_BYTES
    if not fits or match is None or match.lastgroup is None:
        raise UnevaluatedError(f"not an integer: {_shown(token)}")
    number = int(match[match.lastgroup].replace(b"'", b""), _BASES[match.lastgroup])
    # The standard makes a literal over 64 bits an error; g++ warns and drops the upper bits.
    return _wrap(number, b"u" in suffix.lower() or 1 << (BITS - 1) <= number < 1 << BITS)


def _character(token: bytes) -> _Value:
    match = _CHARACTER.fullmatch(token)
    if match is None:
        raise UnevaluatedError(f"not an integer: {_shown(token)}")
    wide = {b"u": 16, b"U": 32, b"L": 32}.get(match[1])
    text = match[2].decode("utf-8" if wide else "latin-1", "replace")
    units = list(_CODE_UNIT.finditer(text))
    if sum(len(unit[0]) for unit in units) < len(text) or (match[1] and len(units) > 1):
        raise UnevaluatedError(f"not a character that is understood: {_shown(token)}")
    number = 0
    for unit in units:
        code = int(unit["octal"], 8) if unit["octal"] else int(unit["hex"], 16) if unit["hex"] else None
        if code is None:
            code = _ESCAPES[unit["named"]] if unit["named"] else ord(unit[0])
        number = number << 8 | (code if wide else code & 0xFF)
    return _wrap(number, match[1] in (b"u", b"U"), wide or (8 if len(units) == 1 else 32))


def _shown(token: bytes) -> str:
    return token.decode("utf-8", "replace") or "the end"


class _Parser:
    def __init__(self, tokens: list[bytes]) -> None:
        self.tokens, self.at, self.depth = tokens, 0, 0

    def peek(self) -> bytes:
        return self.tokens[self.at] if self.at < len(self.tokens) else b""

    def take(self, wanted: bytes | None = None) -> bytes:
        token = self.peek()
        if wanted is not None and token != wanted:
            raise UnevaluatedError(f"expected {_shown(wanted)}, found {_shown(token)}")
        self.at += 1
        return token

    def expression(self, min_rank: int, skipped: bool) -> _Value:
        """Parse and evaluate an expression whose binary operators have at least rank `min_rank`."""
        value = self.unary(skipped)
        while (rank := _RANKS.get(self.peek(), -1)) >= min_rank:
            operator_text, holds = self.take(), bool(value.number)
            if operator_text == b"?":
                if_true = self.expression(0, skipped or not holds)
                self.take(b":")
                if_false = self.expression(rank, skipped or holds)
                value = _wrap((if_true if holds else if_false).number, if_true.unsigned or if_false.unsigned)
            else:
                short_circuit = holds if operator_text == b"||" else not holds and operator_text == b"&&"
                right = self.expression(rank + 1, skipped or short_circuit)
                value = _binary(operator_text, value, right, skipped)
        return value

    def unary(self, skipped: bool) -> _Value:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise UnevaluatedError("nested too deeply")
        token = self.take()
        if token == b"(":
            value = self.expression(0, skipped)
            self.take(b")")
        elif token in (b"!", b"-", b"+", b"~"):
            value = self.unary(skipped)
            if token == b"!":
                value = _Value(int(not value.number))
            elif token != b"+":
                value = _wrap(-value.number if token == b"-" else ~value.number, value.unsigned)
        elif token[:1].isdigit() or token[:1] == b".":
            value = _integer(token)
        elif IDENTIFIER.fullmatch(token):
            if _HEADER_MACROS.fullmatch(token) and not skipped:
                raise UnevaluatedError(f"{_shown(token)} comes from a header that is not read")
            value = _Value(int(token == b"true"))
        else:
            value = _character(token)
        self.depth -= 1
        return value


def evaluate(expression: bytes, macros: Mapping[bytes, bytes], has_header: HasHeader) -> bool:
    """Whether `#if expression` holds; the expression has no comments.

    Raises:
        UnevaluatedError: it has no value, or depends on a header that is not read.
    """
    return bool(_value(expanded(expression, macros, has_header)))


def number(expression: bytes) -> int | None:
    """The value of an integer expression without names; None: it has none."""
    try:
        return _value(expanded(expression, {}))
    except UnevaluatedError:
        return None


def _value(tokens: list[bytes]) -> int:
    parser = _Parser(tokens)
    value = parser.expression(0, skipped=False)
    parser.take(b"")
    return value.number
