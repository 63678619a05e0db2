"""Pointers made out of numbers: addresses that no argument gave.

A heuristic on tokens, made to let honest reinterpretation (of bits, of vectors) through. Not covered: reads
past a buffer, which the runs' redzones and sanitizers see.
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


def int_as_ptr(source: Source) -> Iterator[Finding]:
    """A pointer made out of a number: an address that no argument gave."""
    plain = source.plain
    integers = _integer_names(plain)
    for at, token in enumerate(plain):
        if token.text == "reinterpret_cast":
            arguments = inside_parentheses(plain, _after_angles(plain, at + 1))
            kind = plain[at + 1 : _after_angles(plain, at + 1)]
            if any(item.text == "*" for item in kind) and _integral(arguments, integers):
                yield Finding("int_as_ptr", "reinterpret_cast of a number", token.line)
        elif token.text == "(" and (end := _pointer_cast(plain, at)):
            operand = _operand(plain, end)
            if _integral(operand, integers):
                yield Finding("int_as_ptr", "a number cast to a pointer", token.line)
        elif token.text == "union":
            yield from _punning_union(plain, at)


def _pointer_cast(plain: tuple[Token, ...], at: int) -> int | None:
    """Where a C cast `(type*)` at `at` ends, else None."""
    end, stars = at + 1, 0
    while end < len(plain) and (plain[end].kind == "word" or plain[end].text in ("*", "::", "<", ">", ",")):
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
    """What a cast at `at` applies to: a literal, a name, or a parenthesised expression with its prefix."""
    if at < len(plain) and plain[at].text == "(":
        inner = inside_parentheses(plain, at)
        rest = at + len(inner) + 2
        is_type = bool(inner) and all(
            item.text in INTEGER_TYPES or item.text in ("const", "::", "std") for item in inner
        )
        if (
            is_type
            and rest < len(plain)
            and (plain[rest].kind in ("word", "number") or plain[rest].text == "(")
        ):
            return inner
        return inner
    return plain[at : at + 1]


def _integral(operand: tuple[Token, ...], integers: set[str]) -> bool:
    """True when an expression is surely a number and no pointer with an offset."""
    texts = [item.text for item in operand if item.text not in ("(", ")", "const")]
    if not texts or texts == ["0"]:
        return False
    if operand[0].kind == "number" or texts[0] in INTEGER_TYPES:
        return "*" not in texts
    names = [item for item in operand if item.kind == "word"]
    return bool(names) and all(item.text in integers for item in names) and "&" not in texts[:1]


def _integer_names(plain: tuple[Token, ...]) -> set[str]:
    """Names declared as integers and nowhere as pointers (or as arrays, or as anything else)."""
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
        depth += {"<": 1, ">": -1, ">>": -2}.get(plain[end].text, 0)
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
        yield Finding("int_as_ptr", "a union of a pointer and a number", plain[at].line)
