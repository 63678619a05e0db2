"""Bytes made fit for the parser without moving any: comments, line ends, alignment specifiers.

Every function keeps the length, so that a span of the result is a span of the source.
"""

from __future__ import annotations

import re

# A comment, or a literal that may hold what looks like one. Raw strings do not occur in device code.
_TOKEN = re.compile(
    rb'//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
# Every byte a space, but for line ends.
_BLANK = bytes(10 if byte == 10 else 32 for byte in range(256))
_TRAILING = re.compile(rb"[ \t\r]+\n")
_ALIGN = re.compile(rb"\b__align__\s*\(\s*\w+\s*\)|\b__builtin_align__\s*\(\s*\w+\s*\)")
IDENTIFIER = re.compile(rb"[A-Za-z_]\w*")


def _spaces(match: re.Match[bytes]) -> bytes:
    return match[0].translate(_BLANK)


def blank_comments(source: bytes, line_breaks: bool = True) -> bytes:
    """Comments become spaces, but for their line breaks where those are to stay; literals stay."""
    blank = _BLANK if line_breaks else b" " * 256
    return _TOKEN.sub(lambda m: m[0].translate(blank) if m[0][0] == 47 else m[0], source)


def blank_literals(source: bytes) -> bytes:
    """Comments and the inside of literals become spaces."""
    return _TOKEN.sub(
        lambda m: _spaces(m) if m[0][:1] == b"/" else m[0][:1] + b" " * (len(m[0]) - 2) + m[0][-1:], source
    )


def without_comments(source: bytes) -> bytes:
    """Comments removed; one that spans lines leaves its line breaks out, one inside a line leaves a space."""
    return _TOKEN.sub(lambda m: b" " if m[0][:1] == b"/" else m[0], source)


def parseable(source: bytes) -> bytes:
    """What the grammar takes: no comments, no CR, no blanks before a line end, no `__align__(n)`.

    tree-sitter-cuda 0.21.2 reads on into the next line after a valueless `#define X` with a blank behind
    it, and takes `struct __align__(8) X` for a function. Blanks before a line end move behind it.
    """
    text = blank_comments(source)
    text = _TRAILING.sub(lambda m: b"\n" + b" " * (len(m[0]) - 1), text)
    return _ALIGN.sub(_spaces, text)


def identifiers(source: bytes) -> frozenset[bytes]:
    """Every name in a piece of source, literals and comments aside."""
    return frozenset(IDENTIFIER.findall(blank_literals(source)))
