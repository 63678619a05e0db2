"""Parts of a file, and the way from their bytes and lines to the file's."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from kcurate.records import Span


@dataclass(frozen=True)
class Run:
    """Bytes of a part that `size` bytes of its container, from `at`, stand for; mostly the same bytes.

    `cell` counts the cells of a notebook from 0.
    """

    text: bytes
    at: int
    size: int
    cell: int | None = None


Text = tuple[Run, ...]


def plain(text: Text) -> bytes:
    """The bytes of a text."""
    return b"".join(run.text for run in text)


@dataclass(frozen=True)
class Part:
    """A file in a file: its path in it, which ends like that of a source file, and its text.

    `why`: the text is not known, for this reason; it holds what is.
    """

    name: str
    runs: Text
    why: str | None = None

    def within(self, outer: Part) -> Part:
        """The part of a part, as one of the file that the outer one is in."""
        starts = [0, *accumulate(len(run.text) for run in outer.runs)]
        runs = (inner for run in self.runs for inner in _moved(run, outer.runs, starts))
        return replace(self, name=f"{outer.name}/{self.name}", runs=tuple(runs))


def _moved(run: Run, outer: Text, starts: Sequence[int]) -> Iterator[Run]:
    """A run of a part's text as runs of the file."""
    verbatim, taken = len(run.text) == run.size, 0
    while taken < run.size and outer:
        index = min(bisect_right(starts, run.at + taken) - 1, len(outer) - 1)
        around, skipped = outer[index], run.at + taken - starts[index]
        length = max(min(len(around.text) - skipped, run.size - taken), 1)
        same = len(around.text) == around.size
        at, size = (around.at + skipped, length) if same else (around.at, around.size)
        if not verbatim:
            yield Run(run.text, at, size, around.cell)
            return
        yield Run(run.text[taken : taken + length], at, size, around.cell)
        taken += length


@dataclass(frozen=True)
class Row:
    """Where the text from byte `start` and line `line` on stands: at `at` and `file_line` of the file."""

    start: int
    line: int
    at: int
    size: int
    file_line: int
    cell: int | None


@dataclass(frozen=True)
class Origin:
    """The file that a part is in, and where its runs stand there."""

    file: str
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, file: str, part: Part, breaks: Sequence[int]) -> Origin:
        """`breaks` are the places of the line breaks in the file."""
        rows, start, line = [], 0, 1
        for run in part.runs:
            rows.append(Row(start, line, run.at, run.size, bisect_right(breaks, run.at - 1) + 1, run.cell))
            start += len(run.text)
            line += run.text.count(b"\n")
        return cls(file, tuple(rows))

    def line(self, line: int) -> int:
        """A line of the part as one of the file."""
        index = bisect_right(self.rows, line, key=lambda row: row.line) - 1
        row = self.rows[max(index, 0)]
        return row.file_line + max(line - row.line, 0)

    def span(self, span: Span) -> Span:
        """A span of the part as one of the file."""
        (start, line, cell), (last, end_line, _) = (
            self._place(at, line)
            for at, line in ((span.start_byte, span.start_line), (span.end_byte - 1, span.end_line))
        )
        return Span(self.file, start, last + 1, line, end_line, cell)

    def _place(self, at: int, line: int) -> tuple[int, int, int | None]:
        index = bisect_right(self.rows, at, key=lambda row: row.start) - 1
        row = self.rows[max(index, 0)]
        return row.at + min(at - row.start, max(row.size - 1, 0)), row.file_line + line - row.line, row.cell


def line_breaks(data: bytes) -> list[int]:
    """The places of the line breaks."""
    return [match.start() for match in re.finditer(b"\n", data)]


def joined(texts: Iterable[Text], between: bytes = b"\n") -> Text:
    """Texts one after another, `between` them."""
    runs: list[Run] = []
    for text in texts:
        if runs and between:
            last = runs[-1]
            runs.append(Run(between, last.at + max(last.size - 1, 0), 0, last.cell))
        runs += text
    return tuple(runs)
