"""Reads what the recorders wrote (`FORMAT.md`): for each process its distinct launches ("forms") by kernel.

A file may end in the middle of a line if its process was killed. Not covered: describing the contents of
buffers (`describing`), running the program (`running`).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from kcurate.errors import RecordError
from kcurate.records.capture import CaptureSource

VERSION = 1
# Names of programs that say nothing, so the folder's name is added.
COMMON = frozenset(("main", "a.out", "run", "test", "bench"))


@dataclass
class RawProcess:
    """One process of the program. `forms`: its launch lines by form; `counts`: launches of each form.

    `others`: by mangled name, launches that were only counted: of kernels outside the recording filter, and
    beyond 256 forms of a kernel. `order`: the forms of the first launches. `notes`: what was not recorded,
    and why. `ended`: it exited normally.
    """

    program: str
    source: CaptureSource
    device: str
    forms: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    counts: Mapping[int, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)
    order: Sequence[int] = ()
    notes: dict[str, str] = field(default_factory=dict)
    ended: bool = False

    def launches_between(self, kernel: str) -> dict[str, int]:
        """Launches of each other kernel per launch of `kernel`, rounded up; by mangled name."""
        names = [str(self.forms[form]["kernel"]) for form in self.order if form in self.forms]
        places = [at for at, name in enumerate(names) if name == kernel]
        if len(places) < 2:
            return {}
        between = Counter(names[places[0] : places[-1]])
        rounds = between.pop(kernel)
        return {name: -(-count // rounds) for name, count in between.items()}


def read(folder: Path) -> list[RawProcess]:
    """Every process that launched something or left a note, in order of their start.

    Raises:
        RecordError: lines that a recorder would not write.
    """
    paths = sorted(folder.glob("*.jsonl"), key=lambda file: file.stat().st_mtime_ns)
    processes = filter(None, map(_process, paths))
    return [process for process in processes if process.forms or process.others or process.notes]


def unreadable(folder: Path) -> bool:
    """Whether any file lacks a valid start line."""
    return any(_process(path) is None for path in folder.glob("*.jsonl"))


def _process(path: Path) -> RawProcess | None:
    process: RawProcess | None = None
    for line in _lines(path):
        with of_a_recorder(path):
            process = _apply_line(process, line)
        if process is None:
            return None
    return process


@contextlib.contextmanager
def of_a_recorder(path: Path) -> Iterator[None]:
    """A context that turns any error while parsing a record into a `RecordError` that names the file.

    Raises:
        RecordError: the record does not have the form of `FORMAT.md`.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, OSError) as error:
        raise RecordError(
            f"not written by a recorder of kcurate: {type(error).__name__}: {error}"[:300], where=str(path)
        ) from error


def _apply_line(process: RawProcess | None, line: Mapping[str, Any]) -> RawProcess | None:
    """Apply a line to the process; None if the first line is not a valid start."""
    match line.get("event"):
        case "start" if line.get("version") == VERSION:
            source: CaptureSource = line["source"] if line["source"] in ("cupti", "triton") else "cudart"
            return RawProcess(_named(Path(str(line["program"]))), source, str(line["device"]))
        case _ if process is None:
            return None
        case "launch":
            process.forms[int(line["form"])] = line
        case "times":
            process.counts = {int(form): int(count) for form, count in line["forms"].items()}
            process.others = {str(name): int(count) for name, count in line["others"].items()}
        case "order":
            process.order = [int(form) for form in line["forms"]]
        case "note":
            process.notes.setdefault(str(line["what"]), str(line["text"]))
        case "end":
            process.ended = True
    return process


def _named(program: Path) -> str:
    """The program's name, prefixed with its folder's name if generic (`main`, `a.out`)."""
    name = program.name.removesuffix(" (deleted)") or "program"  # Linux appends this for a deleted executable
    return f"{program.parent.name}-{name}" if name in COMMON and program.parent.name else name


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for text in file:
            with contextlib.suppress(ValueError, RecursionError):
                line = json.loads(text)
                if isinstance(line, dict):
                    yield line


@lru_cache(maxsize=4096)
def demangled(name: str) -> str:
    """A name as the C++ runtime demangles it; unchanged if it is not mangled, or without a C++ runtime."""
    runtime = _runtime()
    if runtime is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    text = runtime.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    return name if text is None or status.value else text.decode("utf-8", "replace")


@lru_cache(maxsize=1)
def _runtime() -> Any:
    try:
        runtime = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None
    runtime.__cxa_demangle.restype = ctypes.c_char_p
    pointers = ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_int)
    runtime.__cxa_demangle.argtypes = (ctypes.c_char_p, ctypes.c_char_p, *pointers)
    return runtime
