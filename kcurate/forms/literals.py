"""Decodes string literals of Python and JSON and maps each byte to its source; nothing is executed."""

from __future__ import annotations

import codecs
import re
from collections.abc import Generator, Iterator

from kcurate.forms.parts import Segment

_OPENING = re.compile(rb"(?P<prefix>[rRbBuUfF]{0,2})(?P<quote>'''|\"\"\"|'|\")")
_BETWEEN = re.compile(rb"(?:\s|\\\r?\n|#[^\n]*)+")
_ESCAPE = re.compile(
    rb"\\(?:\r?\n|[\\'\"abfnrtv]|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}\n]*\})"
)
_JSON_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\"\\/bfnrt])"
)
_QUOTED = re.compile(rb"'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_BRACES = {b"{{": b"{", b"}}": b"}"}


def pieces(source: bytes, at: int) -> Iterator[Segment | int]:
    """The segments of the literals one after another in `source`, which starts at `at` of the file.

    In f-strings an int stands for each expression: its place in the file, that of the opening bracket.
    """
    position = 0
    while opening := _OPENING.match(source, _skipped(source, position)):
        prefix, quote = opening["prefix"].lower(), opening["quote"]
        position = yield from _content(source, opening.end(), quote, b"r" in prefix, b"f" in prefix, at)


def _skipped(source: bytes, position: int) -> int:
    between = _BETWEEN.match(source, position)
    return between.end() if between else position


def _content(
    source: bytes, start: int, quote: bytes, raw: bool, braces: bool, shift: int
) -> Generator[Segment | int, None, int]:
    """Yields the segments of one literal's content; returns the offset of its end."""
    stops = [re.escape(quote), rb"\\."] + ([rb"\{\{", rb"\}\}", rb"\{"] if braces else [])
    stop, begun, position = re.compile(b"|".join(stops), re.DOTALL), start, start
    while match := stop.search(source, position):
        position, text = match.end(), match[0]
        if text.startswith(b"\\"):
            escape = None if raw else _ESCAPE.match(source, match.start())
            if escape is None:
                continue
            position, value = escape.end(), _unescaped(escape[0])
        else:
            value = _BRACES.get(text, b"")
        yield from _verbatim(source, begun, match.start(), shift)
        if text == quote:
            return position
        if text == b"{":
            yield match.start() + shift
            position = _closed(source, position)
        elif value:
            yield Segment(value, match.start() + shift, position - match.start())
        begun = position
    return len(source)


def _verbatim(source: bytes, start: int, end: int, shift: int) -> Iterator[Segment]:
    if end > start:
        yield Segment(source[start:end], start + shift, end - start)


def _closed(source: bytes, position: int) -> int:
    """The offset after the bracket that closes an expression of an f-string."""
    depth = 1
    while depth and position < len(source):
        quoted = _QUOTED.match(source, position)
        depth += 0 if quoted else {b"{": 1, b"}": -1}.get(source[position : position + 1], 0)
        position = quoted.end() if quoted else position + 1
    return position


def _unescaped(escape: bytes) -> bytes:
    if escape.endswith(b"\n"):
        return b""
    try:
        value = codecs.decode(escape.decode("ascii"), "unicode_escape")
    except (UnicodeError, ValueError):
        return b"?" * len(escape)
    return value.encode("utf-8", "replace")


def json_segments(content: bytes, at: int, cell: int) -> Iterator[Segment]:
    """The segments of a JSON string without its quotes, which starts at `at` of the file."""
    begun = 0
    for escape in _JSON_ESCAPE.finditer(content):
        if escape.start() > begun:
            yield Segment(content[begun : escape.start()], at + begun, escape.start() - begun, cell)
        begun, text = escape.end(), escape[0]
        if text == b"\\/":
            value = b"/"
        elif len(text) == 12:
            value = (text.replace(b"\\u", b"")).decode("ascii").encode()
            value = bytes.fromhex(value.decode()).decode("utf-16-be", "replace").encode()
        else:
            value = _unescaped(text)
        yield Segment(value, at + escape.start(), len(text), cell)
    if begun < len(content):
        yield Segment(content[begun:], at + begun, len(content) - begun, cell)
