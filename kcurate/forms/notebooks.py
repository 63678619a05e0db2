"""Reads Jupyter notebooks: files that cells write, CUDA cells, and all Python cells as one module."""

from __future__ import annotations

import ast
import itertools
import json
import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json import decoder, scanner
from typing import Any

from kcurate.forms.literals import json_segments
from kcurate.forms.parts import Part, Segment, Text, joined, plain

PYTHON_NAME = "cells.py"
_MAGIC = re.compile(rb"(?:[ \t]*\r?\n)*[ \t]*%%([^\r\n]*)\r?\n?")
# Lines for IPython or the shell; as long as before.
_LINE_MAGIC = re.compile(rb"^([ \t]*)[%!?]([^\n]*)", re.MULTILINE)
# A longer name names no file that anybody compiles.
MAX_NAME_BYTES, MAX_LINE_BYTES = 200, 4096
_WRITES = frozenset({"writefile", "file", "cuda_group_save"})


class _Placed(str):
    """A string of the JSON text that knows where its content starts."""

    __slots__ = ("start",)
    start: int


class _Decoder(json.JSONDecoder):
    def __init__(self) -> None:
        super().__init__()
        self.parse_string = self._string
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]

    def _string(self, text: str, end: int, strict: bool) -> tuple[str, int]:
        value, after = decoder.scanstring(text, end, strict)  # type: ignore[attr-defined]
        placed = _Placed(value)
        placed.start = end
        return placed, after


@dataclass(frozen=True)
class _Cell:
    index: int
    text: Text

    @property
    def magic(self) -> list[str] | None:
        """The words of its `%%` line; None: it has none."""
        match = _MAGIC.match(plain(self.text))
        if match is None:
            return None
        line = match[1][:MAX_LINE_BYTES].decode("utf-8", "replace")
        try:
            return shlex.split(line) or [""]
        except ValueError:
            return line.split() or [""]

    @property
    def body(self) -> Text:
        """The text with blanks in place of the `%%` line."""
        match = _MAGIC.match(plain(self.text))
        return _blanked(self.text, [match.span()] if match else [])


class Notebooks:
    """CUDA and Python in the cells of a notebook."""

    suffixes = (".ipynb",)

    def read(self, path: str, data: bytes) -> Sequence[Part]:
        """The files that cells write, the cells of CUDA, and the cells of Python together."""
        written: dict[str, list[Text]] = {}
        python: list[Text] = []
        for cell in _cells(data):
            words = cell.magic
            if words is not None and words[0] in _WRITES and (name := _file_name(words)) is not None:
                earlier = written.setdefault(name, [])
                if "-a" not in words:
                    earlier.clear()
                earlier.append(cell.body)
            elif words is None and (code := _python(cell.text)) is not None:
                python.append(code)
            elif b"__global__" in plain(cell.text):
                written[f"cell{cell.index}.cu"] = [cell.body]
        parts = [Part(name, joined(texts)) for name, texts in written.items()]
        return [Part(PYTHON_NAME, joined(python)), *parts] if python else parts


def _cells(data: bytes) -> Iterator[_Cell]:
    """The cells of code, each with the place of every byte. Raises: ValueError: it is no notebook."""
    text = data.decode("utf-8-sig")
    try:
        notebook = _Decoder().decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    sheets = notebook.get("worksheets", [notebook]) if isinstance(notebook, dict) else [None]
    lists = [sheet.get("cells") if isinstance(sheet, dict) else None for sheet in sheets]
    every = [cell for cells in lists if isinstance(cells, list) for cell in cells]
    if None in lists:
        raise ValueError("it has no cells")
    last, byte = 0, len(data) - len(text.encode("utf-8", "replace"))
    for index, cell in enumerate(every):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", cell.get("input"))
        segments: list[Segment] = []
        for piece in source if isinstance(source, list) else [source]:
            if isinstance(piece, _Placed):
                byte += len(text[last : piece.start].encode())
                last = piece.start
                content = text[last : _end(text, last)].encode()
                segments += json_segments(content, byte, index)
        yield _Cell(index, tuple(segments))


def _end(text: str, start: int) -> int:
    """The offset of the end of the string whose content starts at `at`."""
    return int(decoder.scanstring(text, start, True)[1]) - 1  # type: ignore[attr-defined]


def _file_name(words: Sequence[str]) -> str | None:
    """The path that a cell is written to, relative to the notebook's folder; None if it has none."""
    named: Any = [word for before, word in itertools.pairwise(words) if before in ("-n", "--name")]
    name = (named or [word for word in words[1:] if not word.startswith("-")] or [""])[-1]
    parts = [part for part in posixpath.normpath(name).split("/") if part not in ("", ".", "..", "~")]
    fits = len(name.encode("utf-8", "replace")) <= MAX_NAME_BYTES and name.isprintable()
    return "/".join(parts) if parts and fits else None


def _python(text: Text) -> Text | None:
    """A cell without lines for IPython or the shell; None: it is not Python."""
    code = plain(text)
    text = _blanked(text, [(match.start(2) - 1, match.end()) for match in _LINE_MAGIC.finditer(code)], b"0")
    try:
        ast.parse(plain(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return text


def _blanked(text: Text, spans: Sequence[tuple[int, int]], first: bytes = b" ") -> Text:
    """The text with blanks but for line breaks in some spans, each beginning with `first`."""
    code = bytearray(plain(text))
    for start, end in spans:
        blank = re.sub(rb"[^\n]", b" ", code[start:end])
        code[start:end] = (first + blank[1:]) if blank[:1] == b" " else blank
    segments, at = [], 0
    for segment in text:
        segments.append(
            Segment(bytes(code[at : at + len(segment.text)]), segment.at, segment.size, segment.cell)
        )
        at += len(segment.text)
    return tuple(segments)
