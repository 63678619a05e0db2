"""Casts of integers to pointers: addresses that no argument provides.

A token heuristic that allows ordinary type punning (bits of a float, vector loads), and integers that are the
address of a pointer or array plus an offset, or rounded to a multiple (`_Addresses`): it refuses
`(float *)0x7f0000000000`, not `(float *)(((uintptr_t)x + 15) & ~15)`. Not covered: accesses past a buffer,
which redzones and compute-sanitizer find.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal

from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.lexer import Source, Token, inside_parentheses, matching_bracket
from kcurate.judge.checks.word_lists import word_set

INTEGER_TYPES = word_set(
    """
    int unsigned long short char signed size_t ptrdiff_t intptr_t uintptr_t uint64_t int64_t uint32_t int32_t
    uint16_t int16_t uint8_t int8_t longlong ulonglong CUdeviceptr
    """
)
# `>>` is two tokens for the lexer, `>>>` one.
_IN_TYPES = frozenset({"*", "::", "<", ">", ">>>", ","})
# Of the target type of a `reinterpret_cast`.
_MAX_TYPE_TOKENS = 64


def int_as_ptr(source: Source) -> Iterator[Finding]:
    """Integers cast or punned to pointers."""
    plain = source.plain
    integers = _integer_names(plain)
    addresses = _Addresses(plain, integers)
    for at, token in enumerate(plain):
        if token.text == "reinterpret_cast":
            arguments = inside_parentheses(plain, _after_angles(plain, at + 1))
            target = plain[at + 1 : _after_angles(plain, at + 1)]
            suspect = any(item.text == "*" for item in target) and _integral(arguments, integers)
            if suspect and not addresses.holds(_after_angles(plain, at + 1)):
                yield Finding("int_as_ptr", "reinterpret_cast of an integer to a pointer", token.line)
        elif token.text == "(" and (end := _pointer_cast(plain, at)):
            operand = _operand(plain, end)
            if _integral(operand, integers) and not addresses.holds(end):
                yield Finding("int_as_ptr", "an integer cast to a pointer", token.line)
        elif token.text == "union":
            yield from _punning_union(plain, at)


def _pointer_cast(plain: tuple[Token, ...], at: int) -> int | None:
    """The index after a C cast `(type*)` at `at`, else None."""
    end, stars = at + 1, 0
    while end < len(plain) and (plain[end].kind == "word" or plain[end].text in _IN_TYPES):
        stars += plain[end].text == "*"
        end += 1
    closed = (
        end < len(plain)
        and plain[end].text == ")"
        and stars
        and plain[end - 1].text in ("*", "const", "__restrict__")
    )
    called = at > 0 and plain[at - 1].kind == "word" and plain[at - 1].text not in ("return", "else", "do")
    return end + 1 if closed and not called and plain[at + 1].kind == "word" else None


def _operand(plain: tuple[Token, ...], at: int) -> tuple[Token, ...]:
    """The operand of a cast: the tokens inside the parentheses at `at`, else the one token there."""
    if at < len(plain) and plain[at].text == "(":
        return inside_parentheses(plain, at)
    return plain[at : at + 1]


def _integral(operand: tuple[Token, ...], integers: set[str]) -> bool:
    """Whether an expression is certainly an integer, and not a pointer with an offset."""
    texts = [item.text for item in operand if item.text not in ("(", ")", "const")]
    if not texts or texts == ["0"]:
        return False
    if operand[0].kind == "number" or texts[0] in INTEGER_TYPES:
        return "*" not in texts
    names = [item for item in operand if item.kind == "word"]
    return bool(names) and all(item.text in integers for item in names) and "&" not in texts[:1]


def _integer_names(plain: tuple[Token, ...]) -> set[str]:
    """Names declared as integers and nowhere as pointers, references or arrays."""
    integers = {
        name.text
        for before, name, after in zip(plain, plain[1:], plain[2:], strict=False)
        if name.kind == "word"
        and before.text in INTEGER_TYPES
        and name.text not in INTEGER_TYPES
        and after.text in ("=", ";", ",", ")")
    }
    subscripted = {name.text for name, after in itertools.pairwise(plain) if after.text == "["}
    return integers - subscripted - _pointer_names(plain, "*&")


# Of an integer expression: an address; `-` or `~` of one; one over a constant; a plain number; none of these.
Kind = Literal["address", "negated", "divided", "number", "unknown"]
# The largest constant of a mask, remainder or division by which an address may be split into base and offset.
_MAX_OFFSET = 4096
# Binary operators, loosest binding first.
_LEVELS = (("|", "^"), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))


class _Addresses:
    """Which integer expressions are one pointer's address plus an offset, as pointer arithmetic gives it.

    An address minus an offset, rounded by `& ~mask` or `/ c * c`, is one; the sum of two, a product, a shift,
    or anything read from memory is none. A variable holds addresses if it is assigned nothing else. In the
    methods, `known` are the pointers, and the integer variables taken to hold addresses.
    """

    def __init__(self, plain: tuple[Token, ...], integers: set[str]) -> None:
        self._plain, self._integers = plain, integers
        self._constants = {
            name.text
            for before, type_name, name in zip(plain, plain[1:], plain[2:], strict=False)
            if type_name.text in INTEGER_TYPES and before.text in ("constexpr", "<", ",")
        }
        self._known: set[str] | None = None  # found when first needed, since few sides cast integers

    def holds(self, at: int) -> bool:
        """Whether the unary expression at an index is an address."""
        if self._known is None:
            self._known = self._pointers_and_addresses()
        return bool(self._known) and self._unary(at, self._known)[0] == "address"

    def _pointers_and_addresses(self) -> set[str]:
        """The pointers, and the integer variables that hold addresses."""
        known = _pointer_names(self._plain, "*") - self._integers
        while more := {name for name in self._integers - known if self._holds_addresses(name, known)}:
            known |= more
        while less := {name for name in self._integers & known if not self._holds_addresses(name, known)}:
            known -= less  # the sum of two, of which one was not known yet
        return known

    def _text(self, at: int) -> str:
        return self._plain[at].text if 0 <= at < len(self._plain) else ""

    def _holds_addresses(self, name: str, known: set[str]) -> bool:
        """Whether an integer variable is assigned nothing but addresses; itself counts as one."""
        known = known | {name}
        for at, token in enumerate(self._plain):
            if token.text != name:
                continue
            before, following = self._text(at - 1), self._text(at + 1)
            taken = before == "&" and self._text(at - 2) in ("(", ",", "=", "return", "{", ";")
            if taken or (at > 1 and self._plain[at - 2].kind == "string") or following in _CHANGES:
                return False
            if following == "=":
                kind, end = self._binary(at + 2, 0, known)
                if kind != "address" or self._text(end) not in (";", ",", ")"):
                    return False
            if before in INTEGER_TYPES and following != "=":
                return False
        return True

    def _binary(self, at: int, level: int, known: set[str]) -> tuple[Kind, int]:
        """The kind of the expression at an index, of operators from `level` on, and the index after it."""
        if level == len(_LEVELS):
            return self._unary(at, known)
        kind, end = self._binary(at, level + 1, known)
        while self._text(end) in _LEVELS[level]:
            right, after = self._binary(end + 1, level + 1, known)
            kind = self._result(kind, self._text(end), right, end)
            end = after
        return kind, end

    def _result(self, left: Kind, operator: str, right: Kind, at: int) -> Kind:
        """The kind of a binary expression whose operator is at an index."""
        if left == right == "number":
            return "number"
        constant = self._text(at + 1)
        small = constant.rstrip("uUlL").isdecimal() and int(constant.rstrip("uUlL")) <= _MAX_OFFSET
        if operator == "+" and {left, right} == {"address", "number"}:
            return "address"
        if operator == "-" and left == "address":
            return "address" if right == "number" else "number" if right == "address" else "unknown"
        if operator == "&" and left == "address" and constant in ("~", "-") and self._is_constant(at + 1):
            return "address"
        if operator in ("&", "%") and left in ("address", "negated") and small:
            return "number"
        if operator == "/" and left == "address" and small:
            return "divided"
        divisor = self._text(at - 1)
        return "address" if operator == "*" and left == "divided" and constant == divisor else "unknown"

    def _is_constant(self, at: int) -> bool:
        """Whether a unary expression is a compile-time constant."""
        end = self._unary(at, set())[1]
        allowed = INTEGER_TYPES | {"~", "-", "+", "(", ")", *self._constants}
        while at < end:
            if self._text(at) in ("sizeof", "alignof") and self._text(at + 1) == "(":
                at = matching_bracket(self._plain, at + 1, "(", ")")  # of any type or value
            elif self._plain[at].kind != "number" and self._text(at) not in allowed:
                return False
            at += 1
        return True

    def _unary(self, at: int, known: set[str]) -> tuple[Kind, int]:
        text = self._text(at)
        if text in ("-", "~"):
            kind, end = self._unary(at + 1, known)
            return ("negated" if kind == "address" else kind), end
        if text == "&":
            kind, end = self._unary(at + 1, known)
            name = self._text(at + 1)
            return ("address" if name in known and name not in self._integers else "unknown"), end
        if text == "(":
            close = matching_bracket(self._plain, at, "(", ")")
            inside = [token.text for token in self._plain[at + 1 : close]]
            if inside and all(
                word in INTEGER_TYPES or word in ("const", "*", "void", "char") for word in inside
            ):
                return self._unary(close + 1, known)
            kind, end = self._binary(at + 1, 0, known)
            return (kind if end == close else "unknown"), close + 1
        if text in ("reinterpret_cast", "static_cast") or (
            text in INTEGER_TYPES and self._text(at + 1) == "("
        ):
            opening = _after_angles(self._plain, at + 1) if text.endswith("_cast") else at + 1
            return self._unary(opening, known)
        return self._primary(at, known)

    def _primary(self, at: int, known: set[str]) -> tuple[Kind, int]:
        if at >= len(self._plain) or self._plain[at].kind not in ("word", "number"):
            return "unknown", at + 1
        end, is_name = at + 1, True
        while self._text(end) in ("[", "(", ".", "->", "::"):
            is_name = False
            opening = self._text(end)
            closing = {"[": "]", "(": ")"}.get(opening)
            end = matching_bracket(self._plain, end, opening, closing) + 1 if closing else end + 2
        name = self._plain[at].text
        if is_name and name in known:
            return "address", end
        return "number", end


_CHANGES = frozenset({"*=", "/=", "%=", "^=", "|=", "&=", "<<=", ">>="})


def _pointer_names(plain: tuple[Token, ...], marks: str) -> set[str]:
    """Names declared as arrays, or with one of the marks (`*`, `&`) in their type."""
    variables = {
        name.text
        for before, name, after in zip(plain, plain[1:], plain[2:], strict=False)
        if before.kind == name.kind == "word"
        and before.text not in ("using", "typename", "class", "struct")
        and after.text in ("=", ";", ",", ")", "[", "{")
    }
    for at, token in enumerate(plain):
        if token.text == "typedef":
            end = next((i for i in range(at, len(plain)) if plain[i].text == ";"), at + 1)
            variables.discard(plain[end - 1].text)
    pointers: set[str] = set()
    for at in range(2, len(plain) - 1):
        if plain[at].kind != "word" or plain[at + 1].text not in ("=", ";", ",", ")", "["):
            continue
        first = at - 1
        while first > 0 and plain[first].text in ("*", "&", "const", "__restrict__", "restrict", "volatile"):
            first -= 1
        stars = any(token.text in marks for token in plain[first + 1 : at])
        is_type = (plain[first].kind == "word" and plain[first].text not in variables) or plain[
            first
        ].text == ">"
        member = plain[first - 1].text in (".", "->")
        array = plain[at + 1].text == "[" and not stars and first == at - 1
        if is_type and not member and (stars or array) and plain[first].text not in ("return", "sizeof"):
            pointers.add(plain[at].text)
    return pointers


def _after_angles(plain: tuple[Token, ...], at: int) -> int:
    """The index after the template arguments at `at`; `at` if there are none, or too many."""
    depth = 0
    for end in range(at, min(at + _MAX_TYPE_TOKENS, len(plain))):
        depth += {"<": 1, ">": -1, ">>>": -3}.get(plain[end].text, 0)
        if depth <= 0:
            return end + 1
    return at


def _punning_union(plain: tuple[Token, ...], at: int) -> Iterator[Finding]:
    opening = next((i for i in range(at + 1, min(at + 4, len(plain))) if plain[i].text == "{"), None)
    if opening is None:
        return
    depth, body = 0, []
    for token in plain[opening:]:
        depth += {"{": 1, "}": -1}.get(token.text, 0)
        body.append(token.text)
        if depth == 0:
            break
    if "*" in body and any(word in INTEGER_TYPES for word in body):
        yield Finding("int_as_ptr", "a union of a pointer and an integer", plain[at].line)
