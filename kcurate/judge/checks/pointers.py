"""Pointers made from integers: addresses that no argument provides.

A token heuristic that allows ordinary type punning (bits of a float, vector loads). Not covered: accesses
past a buffer, which redzones and compute-sanitizer find.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcurate.judge.checks.findings import Finding
from kcurate.judge.checks.lexer import Source, Token, inside_parentheses
from kcurate.judge.checks.word_lists import word_set

INTEGER_TYPES = word_set(
    """
    int unsigned long short char signed size_t ptrdiff_t intptr_t uintptr_t uint64_t int64_t uint32_t int32_t
    uint16_t int16_t uint8_t int8_t longlong ulonglong CUdeviceptr
    """
)
# `>>` is two tokens for the lexer, `>>>` one.
_IN_TYPES = frozenset({"*", "::", "<", ">", ">>>", ","})


def int_as_ptr(source: Source) -> Iterator[Finding]:
    """Integers cast or punned to pointers."""
    plain = source.plain
    integers = _integer_names(plain)
    for at, token in enumerate(plain):
        if token.text == "reinterpret_cast":
            arguments = inside_parentheses(plain, _after_angles(plain, at + 1))
            kind = plain[at + 1 : _after_angles(plain, at + 1)]
            if any(item.text == "*" for item in kind) and _integral(arguments, integers):
                yield Finding("int_as_ptr", "reinterpret_cast of an integer to a pointer", token.line)
        elif token.text == "(" and (end := _pointer_cast(plain, at)):
            operand = _operand(plain, end)
            if _integral(operand, integers):
                yield Finding("int_as_ptr", "an integer cast to a pointer", token.line)
        elif token.text == "union":
            yield from _punning_union(plain, at)


def _pointer_cast(plain: tuple[Token, ...], at: int) -> int | None:
    """The position after a C cast `(type*)` at `at`, else None."""
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
    """What a cast applies to: the tokens inside the parentheses at `at`, else the one token there."""
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
    """Names declared as integers and nowhere as pointers or arrays."""
    integers, others = set(), set()
    for before, name, after in zip(plain, plain[1:], plain[2:], strict=False):
        if name.kind != "word":
            continue
        if before.text in INTEGER_TYPES and name.text not in INTEGER_TYPES and after.text in "=;,)":
            integers.add(name.text)
        elif before.text in ("*", "&", "__restrict__", "restrict") or after.text == "[":
            others.add(name.text)
    return integers - others


def _after_angles(plain: tuple[Token, ...], at: int) -> int:
    depth = 0
    for end in range(at, min(at + 64, len(plain))):
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
