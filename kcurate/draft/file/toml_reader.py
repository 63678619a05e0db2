"""Parses a draft's file: the known problem in it, and what is open or wrong, with file and line.

Not covered: writing it (`toml_writer`), running it (`admit`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kcurate.core import codec, own_files, store
from kcurate.draft.file.toml_writer import OPEN_MARK, TABLE
from kcurate.draft.sketch import OPEN
from kcurate.errors import InputError, RecordError
from kcurate.problem.check import Issue
from kcurate.records import KnownProblem, Verdict

_MARK = re.compile(rf"(?:^|\s){re.escape(OPEN_MARK)}(?:\s|$)(.*)")
_AT_LINE = re.compile(r"\(at line (\d+)")


@dataclass(frozen=True)
class Fault:
    """One reason why a file cannot be used; `line` counts from 1, None if it concerns no single line.

    `verdict`: of the judge that refused the file.
    """

    path: Path
    line: int | None
    what: str
    verdict: Verdict | None = field(default=None, compare=False, repr=False)

    @property
    def where(self) -> str:
        """The file, with the line if there is one."""
        return str(self.path) if self.line is None else f"{self.path}:{self.line}"

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Form:
    """A file: its kernel, the problem if it can be parsed, the faults, and the code it was made for."""

    path: Path
    text: str
    kernel: str | None = None
    known: KnownProblem | None = None
    faults: tuple[Fault, ...] = ()
    code_id: str | None = None

    def fault(self, issue: Issue) -> Fault:
        """An issue from the problem check as a fault, at the line it concerns."""
        return Fault(self.path, line_of(self.text, issue.where), issue.what)


def read(path: Path) -> Form:
    """Read a file; everything wrong with it becomes a fault, except that it cannot be read.

    Raises:
        InputError: it cannot be read.
    """
    try:
        if path.exists():
            own_files.check_size(path)
        content = path.read_bytes() if path.exists() else own_files.read(path)
        text = content.decode().replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(path), hint="check the path") from error
    except UnicodeDecodeError as error:
        at = error.object.count(b"\n", 0, error.start) + 1
        return Form(path, "", faults=(Fault(path, at, "not UTF-8 text: save it as UTF-8"),))
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _AT_LINE.search(str(error))
        return Form(path, text, faults=(Fault(path, int(line[1]) if line else 1, f"not TOML: {error}"),))
    faults = tuple(_open(path, text, data))
    table = data.pop(TABLE, {})
    kernel = table.get("kernel") if isinstance(table, dict) else None
    code_id = table.get("code_id") if isinstance(table, dict) else None
    if not isinstance(code_id, str):
        code_id = None
    if not isinstance(kernel, str):
        faults += (Fault(path, 1, f"no kernel: the table [{TABLE}] must name one"),)
        kernel = None
    if faults:
        return Form(path, text, kernel, faults=faults, code_id=code_id)
    try:
        store.check_schema("knownproblem", data, where=str(path))
        known = codec.from_data(KnownProblem, data, where=str(path))
    except RecordError as error:
        return Form(
            path, text, kernel, faults=(Fault(path, line_of(text, error.what), error.what),), code_id=code_id
        )
    if len(known.sides) != 1:
        faults = (Fault(path, 1, f"{len(known.sides)} sides; a draft has one"),)
    return Form(path, text, kernel, known, faults, code_id)


def _open(path: Path, text: str, data: dict[str, Any]) -> Iterator[Fault]:
    """Marked lines, and values that are still a question mark."""
    marked = set()
    for number, line in enumerate(text.splitlines(), 1):
        mark = _MARK.search(line)
        if mark and not line.lstrip().startswith("##"):
            marked.add(number)
            place = line.split("=")[0].strip() if "=" in line.split("#")[0] else ""
            yield Fault(
                path, number, f"open: {f'{place}: ' if place else ''}{mark[1].strip() or 'fill this in'}"
            )
    for number, line in enumerate(text.splitlines(), 1):
        if number not in marked and f'"{OPEN}"' in line.split("#")[0]:
            yield Fault(path, number, f"open: a value is still {OPEN!r}")
    if not marked and OPEN in _values(data):
        yield Fault(path, 1, f"open: a value is still {OPEN!r}")


def _values(data: Any) -> set[str]:
    if isinstance(data, dict):
        return set().union(*(_values(value) for value in data.values()))
    if isinstance(data, list):
        return set().union(*(_values(value) for value in data))
    return {data} if isinstance(data, str) else set()


def line_of(text: str, where: str) -> int:
    """The line where a place such as `problem.buffers.a.init` or `slow.plan[0].args[1]` is written."""
    lines = text.splitlines()
    plan = re.search(r"plan(?:\[(\d+)\])?(?:[.\w]*?\.?(args|grid|block))?", where)
    if plan and ("slow" in where or "fast" in where or "sides" in where):
        heads = [number for number, line in enumerate(lines, 1) if line.startswith("[[sides.")]
        index = int(plan[1]) if plan[1] else 0
        start = heads[index] if index < len(heads) else (heads[0] if heads else 1)
        return _key_line(lines, start, plan[2]) if plan[2] else start
    parts = re.findall(r"\w+", where.removeprefix("$."))
    start = 1
    for part in parts:
        for number in range(start, len(lines) + 1):
            line = lines[number - 1]
            if re.match(rf"\s*\[+[^\]]*\b{re.escape(part)}\b|\s*\"?{re.escape(part)}\"?\s*=", line):
                start = number
                break
    return start


def _key_line(lines: list[str], start: int, key: str) -> int:
    for number in range(start + 1, len(lines) + 1):
        if lines[number - 1].startswith("["):
            break
        if re.match(rf"\s*{key}\s*=", lines[number - 1]):
            return number
    return start
