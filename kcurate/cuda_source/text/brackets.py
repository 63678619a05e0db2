"""Matching brackets and top-level commas in text whose comments and literals are blanked."""

from __future__ import annotations

import re

_BRACKET = re.compile(rb"[()\[\]{}]")
_SIGN = re.compile(rb"[()\[\]{}<>,]")
_TEMPLATE_ARGUMENTS = re.compile(rb"(?<=\w)<[\w\s:,*&<>]{1,400}>(?=\s*(?:[({]|::))")


def closing(text: bytes, at: int, limit: int = 100_000) -> int | None:
    """The offset behind the bracket that closes the one at `at`; None: no match within `limit` bytes."""
    depth = 0
    for match in _BRACKET.finditer(text, at, at + limit):
        if match[0] in b"([{":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return match.end()
    return None


def split_arguments(text: bytes, angles: bool = False) -> list[bytes]:
    """The text between top-level commas, stripped.

    With `angles`, `<` and `>` outside other brackets count as brackets. Without it they do so only around
    template arguments before a call, as in `f<a, b>(c)`.
    """
    pieces: list[bytes] = []
    depth = angle = start = skipped = 0
    for match in _SIGN.finditer(text):
        position, sign = match.start(), match[0]
        if position < skipped:
            continue
        if sign in b"([{":
            depth += 1
        elif sign in b")]}":
            depth -= 1
        elif depth:
            continue
        elif sign == b",":
            if not angle:
                pieces.append(text[start:position].strip())
                start = position + 1
        elif angles:
            angle += 1 if sign == b"<" else -1
        else:
            called = _TEMPLATE_ARGUMENTS.match(text, position)
            if called and called[0].count(b"<") == called[0].count(b">"):
                skipped = called.end()
    last = text[start:].strip()
    return [*pieces, last] if last or pieces else []
