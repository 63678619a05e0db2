r"""A source map: from bytes and lines of code inside another file (a part) to those of that file.

In a Python file that has

    source = "__global__ void k(int *x)\n{ *x = 1; }"

the part's text has a line break where the file has an escape. Its segments (text, at, size) are

    (b"__global__ void k(int *x)", 10, 25)      the same bytes as in the file
    (b"\n", 35, 2)                              one byte for two of the file
    (b"{ *x = 1; }", 37, 11)

so line 2 of the part is line 1 of the file, and `*x = 1`, at byte 28 of the part, is at byte 39 of the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from kcurate.records import Span


@dataclass(frozen=True)
class Segment:
    """Neighbouring bytes of a part, `text`: its file (or outer part) has `size` bytes for them from `at` on.

    These are the same bytes if `size` is the length of `text`; else an escape sequence or a filled-in
    template. `cell` counts a notebook's cells from 0.
    """

    text: bytes
    at: int
    size: int
    cell: int | None = None


Text = tuple[Segment, ...]


def plain(text: Text) -> bytes:
    """The bytes of a text, without the map."""
    return b"".join(segment.text for segment in text)


@dataclass(frozen=True)
class Part:
    """Code inside another file, read as a source file: its name (`source.cu`) and its text.

    `why`: the reason why the text is incomplete (some is computed at run time); None: it is complete.
    """

    name: str
    segments: Text
    why: str | None = None

    def within(self, outer: Part) -> Part:
        """A part of `outer` (a string in a notebook's cell) as a part of the file that has `outer`."""
        starts = [0, *accumulate(len(segment.text) for segment in outer.segments)]
        segments = (inner for segment in self.segments for inner in _through(segment, outer.segments, starts))
        return replace(self, name=f"{outer.name}/{self.name}", segments=tuple(segments))


def _through(segment: Segment, outer: Text, starts: Sequence[int]) -> Iterator[Segment]:
    """Composes two maps: a segment whose container is a part, as segments of the file that has that part."""
    verbatim, mapped = len(segment.text) == segment.size, 0
    while mapped < segment.size and outer:
        index = min(bisect_right(starts, segment.at + mapped) - 1, len(outer) - 1)
        around, skipped = outer[index], segment.at + mapped - starts[index]
        length = max(min(len(around.text) - skipped, segment.size - mapped), 1)
        outer_verbatim = len(around.text) == around.size
        at, size = (around.at + skipped, length) if outer_verbatim else (around.at, around.size)
        if not verbatim:
            yield Segment(segment.text, at, size, around.cell)
            return
        yield Segment(segment.text[mapped : mapped + length], at, size, around.cell)
        mapped += length


@dataclass(frozen=True)
class MapEntry:
    """A segment's start in the part (byte `start`, line `line`) and in the file (byte `at`, `file_line`)."""

    start: int
    line: int
    at: int
    size: int
    file_line: int
    cell: int | None


@dataclass(frozen=True)
class SourceMap:
    """Translates lines and spans of a part to those of its file; `entries` in order of the part's bytes."""

    file: str
    entries: tuple[MapEntry, ...]

    @classmethod
    def of(cls, file: str, part: Part, breaks: Sequence[int]) -> SourceMap:
        """`breaks`: see `line_breaks` of the file."""
        entries, start, line = [], 0, 1
        for segment in part.segments:
            file_line = bisect_right(breaks, segment.at - 1) + 1
            entries.append(MapEntry(start, line, segment.at, segment.size, file_line, segment.cell))
            start += len(segment.text)
            line += segment.text.count(b"\n")
        return cls(file, tuple(entries))

    def line(self, line: int) -> int:
        """The file's line for a line of the part, both from 1."""
        index = bisect_right(self.entries, line, key=lambda entry: entry.line) - 1
        entry = self.entries[max(index, 0)]
        return entry.file_line + max(line - entry.line, 0)

    def span(self, span: Span) -> Span:
        """The file's span for a span of the part."""
        (start, line, cell), (last, end_line, _) = (
            self._place(at, line)
            for at, line in ((span.start_byte, span.start_line), (span.end_byte - 1, span.end_line))
        )
        return Span(self.file, start, last + 1, line, end_line, cell)

    def _place(self, at: int, line: int) -> tuple[int, int, int | None]:
        index = bisect_right(self.entries, at, key=lambda entry: entry.start) - 1
        entry = self.entries[max(index, 0)]
        within = min(at - entry.start, max(entry.size - 1, 0))
        return entry.at + within, entry.file_line + line - entry.line, entry.cell


def line_breaks(data: bytes) -> list[int]:
    """The byte offsets of the line breaks."""
    return [match.start() for match in re.finditer(b"\n", data)]


def joined(texts: Iterable[Text], between: bytes = b"\n") -> Text:
    """Texts one after another, with `between` (which the file does not have) after all but the last."""
    segments: list[Segment] = []
    for text in texts:
        if segments and between:
            last = segments[-1]
            segments.append(Segment(between, last.at + max(last.size - 1, 0), 0, last.cell))
        segments += text
    return tuple(segments)
