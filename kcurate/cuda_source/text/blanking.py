"""Makes bytes parseable without moving any: comments, line ends, alignment specifiers.

Except for `without_comments`, results have the source's length, so spans of one are spans of the other.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable
from functools import lru_cache

from kcurate.cuda_source.text.tokens import IDENTIFIER, comment_or_literal, directives

_ESCAPES = {rb"\n": 10, rb"\t": 9, rb"\r": 13, rb"\0": 0, rb"\\": 92, rb"\'": 39}
# Maps every byte except line feed to a space.
BLANK = bytes(10 if byte == 10 else 32 for byte in range(256))
# A line end behind blanks.
_TRAILING = re.compile(rb"\n(?<=[ \t\r]\n)")
# The grammar loses a function that has one of these on a parameter.
_ATTRIBUTE = re.compile(
    rb"\[\[\s*(?:maybe_unused|nodiscard|noreturn|fallthrough|likely|unlikely|deprecated)\b[^\[\]]*\]\]"
)
# An alignment specifier, or a directive, in which one stays.
_ALIGN = re.compile(rb"(?m:^)[ \t]*#[^\n]*|\b__align__\s*\(\s*\w+\s*\)|\b__builtin_align__\s*\(\s*\w+\s*\)")


# Most declarations and kernels hold none of these, which is found far quicker than that no pattern matches.
_COMMENTS = b"//", b"/*"
_COMMENTS_AND_QUOTES = *_COMMENTS, b'"', b"'"


def _holds_any(source: bytes, signs: Iterable[bytes]) -> bool:
    return any(sign in source for sign in signs)


def _spaces(match: re.Match[bytes]) -> bytes:
    return match[0].translate(BLANK)


def without_byte_order_mark(source: bytes) -> bytes:
    """The source with blanks for UTF-8's mark at its start, which would hide a directive behind it."""
    return b"   " + source[3:] if source.startswith(BOM_UTF8) else source


def blank_comments(source: bytes, line_breaks: bool = True) -> bytes:
    """Replace comments with spaces; literals stay, and line breaks unless `line_breaks` is False.

    Then nothing in a raw string stays either: no line in it is a directive.
    """
    if line_breaks and not _holds_any(source, _COMMENTS):
        return source
    blank = BLANK if line_breaks else b" " * 256
    replaced = b"/" if line_breaks else b"/R"

    def blanked(match: re.Match[bytes]) -> bytes:
        text = match[0]
        return text.translate(blank) if text[0] in replaced else text

    return comment_or_literal(source).sub(blanked, source)


def blank_literals(source: bytes) -> bytes:
    """Replace comments and the contents of literals with spaces; line breaks stay.

    A raw string becomes an empty one: what is between its quotes may be lines.
    """
    if not _holds_any(source, _COMMENTS_AND_QUOTES):
        return source
    return comment_or_literal(source).sub(_blank_literal, source)


# A file is scanned, then read in a unit.
bare_file = lru_cache(maxsize=16)(blank_literals)


def _blank_literal(match: re.Match[bytes]) -> bytes:
    text = match[0]
    if text[:1] == b"/":
        return text.translate(BLANK)
    if text[:1] == b"R":
        return b'""' + text[2:].translate(BLANK)
    if text[:1].isdigit():
        return text
    return text[:1] + text[1:-1].translate(BLANK) + text[-1:]


@lru_cache(maxsize=2)  # of all who read a text's macros
def blank_directives(bare: bytes) -> bytes:
    """Replace directives with spaces in a text without comments and literals; line breaks stay."""
    out, at = [], 0
    for match in directives(bare):
        out += [bare[at : match.start()], _spaces(match)]
        at = match.end()
    return b"".join([*out, bare[at:]])


def numbered(source: bytes) -> bytes:
    """Characters such as `'a'` as their numbers, at equal length; prefixed and longer ones stay."""

    def number(match: re.Match[bytes]) -> bytes:
        inside = match[0][1:-1]
        plain = len(inside) == 1 or inside in _ESCAPES
        if match[0][:1] != b"'" or not plain or source[match.start() - 1 : match.start()].isalnum():
            return match[0]
        return str(_ESCAPES.get(inside, inside[0])).encode().ljust(len(match[0]))

    return comment_or_literal(source).sub(number, source)


def without_comments(source: bytes) -> bytes:
    """Replace each comment, including any line breaks in it, with one space."""
    if not _holds_any(source, _COMMENTS):
        return source
    return comment_or_literal(source).sub(lambda m: b" " if m[0][:1] == b"/" else m[0], source)


def parseable(source: bytes) -> bytes:
    """Source in the form the grammar accepts: no comments, CRs, trailing blanks or `__align__(n)`.

    tree-sitter-cuda 0.21.2 reads past the line end after a valueless `#define X` with a trailing blank, and
    parses `struct __align__(8) X` as a function. Trailing blanks are moved after the line break.
    """
    text = blank_comments(source)
    if b"align__" in text:
        text = _ALIGN.sub(lambda m: m[0] if m[0].lstrip()[:1] == b"#" else _spaces(m), text)
    text = _ATTRIBUTE.sub(_spaces, text)
    out, at = [], 0
    for match in _TRAILING.finditer(text):
        lines = text[at : match.start()]
        kept = lines.rstrip(b" \t\r")
        out += [kept, b"\n", b" " * (len(lines) - len(kept))]
        at = match.end()
    return b"".join([*out, text[at:]])


def identifiers(source: bytes) -> frozenset[bytes]:
    """Every name in the source, outside literals and comments."""
    return frozenset(IDENTIFIER.findall(blank_literals(source)))
