"""Makes bytes parseable without moving any: comments, line ends and alignment specifiers become blanks.

Except for `without_comments`, results have the source's length, so spans are valid in both.
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
# A line break behind trailing blanks.
_TRAILING = re.compile(rb"\n(?<=[ \t\r]\n)")
# The grammar loses a function that has one of these on a parameter.
_ATTRIBUTE = re.compile(
    rb"\[\[\s*(?:maybe_unused|nodiscard|noreturn|fallthrough|likely|unlikely|deprecated)\b[^\[\]]*\]\]"
)
# An alignment specifier; or a whole directive, so that a specifier in it is not blanked.
_ALIGN = re.compile(rb"(?m:^)[ \t]*#[^\n]*|\b__align__\s*\(\s*\w+\s*\)|\b__builtin_align__\s*\(\s*\w+\s*\)")


# Most declarations and kernels contain none of these; searching for them is much faster than for a pattern.
_COMMENTS = b"//", b"/*"
_COMMENTS_AND_QUOTES = *_COMMENTS, b'"', b"'"


def _holds_any(source: bytes, signs: Iterable[bytes]) -> bool:
    return any(sign in source for sign in signs)


def _spaces(match: re.Match[bytes]) -> bytes:
    return match[0].translate(BLANK)


def without_byte_order_mark(source: bytes) -> bytes:
    """The source with a leading UTF-8 byte order mark blanked; it would hide a directive behind it."""
    return b"   " + source[3:] if source.startswith(BOM_UTF8) else source


def blank_comments(source: bytes, line_breaks: bool = True) -> bytes:
    """The source with comments replaced by spaces; literals stay.

    With `line_breaks` False, line breaks in comments are blanked too, and so are raw strings, whose lines
    could be taken for directives.
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
    """The source with comments and the contents of literals replaced by spaces; line breaks stay.

    A raw string becomes an empty string followed by blanks, since its contents may span lines.
    """
    if not _holds_any(source, _COMMENTS_AND_QUOTES):
        return source
    return comment_or_literal(source).sub(_blank_literal, source)


# Cached, since a file is scanned first and read as part of a unit later.
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


@lru_cache(maxsize=2)  # several readers ask for one text
def blank_directives(bare: bytes) -> bytes:
    """A text without comments and literals, with its directives replaced by spaces; line breaks stay."""
    out, at = [], 0
    for match in directives(bare):
        out += [bare[at : match.start()], _spaces(match)]
        at = match.end()
    return b"".join([*out, bare[at:]])


def numbered(source: bytes) -> bytes:
    """The source with characters such as `'a'` replaced by their codes, at equal length."""

    def number(match: re.Match[bytes]) -> bytes:
        inside = match[0][1:-1]
        plain = len(inside) == 1 or inside in _ESCAPES
        if match[0][:1] != b"'" or not plain or source[match.start() - 1 : match.start()].isalnum():
            return match[0]
        return str(_ESCAPES.get(inside, inside[0])).encode().ljust(len(match[0]))

    return comment_or_literal(source).sub(number, source)


def without_comments(source: bytes) -> bytes:
    """The source with each comment, line breaks in it included, replaced by one space."""
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
        without_trailing = lines.rstrip(b" \t\r")
        out += [without_trailing, b"\n", b" " * (len(lines) - len(without_trailing))]
        at = match.end()
    return b"".join([*out, text[at:]])


def identifiers(source: bytes) -> frozenset[bytes]:
    """Every name in the source, outside literals and comments."""
    return frozenset(IDENTIFIER.findall(blank_literals(source)))
