"""Readers of files of another form, by the ending of their names: those of kcurate and of plugins.

Not covered: finding plugins (`kcurate.core.plugins`); what a reader of kcurate takes (the modules beside).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from kcurate.core import plugins
from kcurate.core.plugins import Plugin
from kcurate.forms.notebooks import Notebooks
from kcurate.forms.parts import Part, plain
from kcurate.forms.python_strings import PythonStrings

CUDA_SUFFIXES = frozenset({".cu", ".cuh", ".cuda", ".hip"})
HEADER_SUFFIXES = frozenset({".h", ".hh", ".hpp", ".hxx", ".inl", ".inc", ".tpp"})
HOST_SUFFIXES = frozenset({".c", ".cc", ".cpp", ".cxx"})
PYTHON_SUFFIX = ".py"
SOURCE_SUFFIXES = CUDA_SUFFIXES | HEADER_SUFFIXES | HOST_SUFFIXES
# Larger "sources" are generated tables or data; parsing one takes gigabytes of memory.
MAX_FILE_BYTES = 64 * 1024 * 1024
# A module in a string of a notebook's cell.
MAX_DEPTH = 3


@runtime_checkable
class FormReader(Protocol):
    """Takes the code out of a file of another form.

    `suffixes` are endings of names, with the dot and in lower case; none that kcurate reads itself.
    """

    suffixes: Sequence[str]

    def read(self, path: str, data: bytes) -> bytes | Iterable[Part]:
        """The CUDA text in a file's bytes, or its parts, each a file of its own; empty: there is none.

        The spans of kernels are those of a text that is returned. They lead back into the file if it is as
        long as `data`, with spaces in place of everything else and its line breaks kept. Parts know where
        they stand. It runs in a worker process, several times for one file, and must not depend on anything
        but its arguments. Any exception rules the file out.
        """
        ...


class ReaderFailed(Exception):  # noqa: N818 - turned into the outcome of a file
    """A reader failed on a file, or returned something else; the message says which and why."""


_BUILT_IN = tuple(
    Plugin(type(reader).__name__, label, reader)
    for label, reader in (("the strings of Python", PythonStrings()), ("the notebook", Notebooks()))
)
# Files whose own text is no CUDA.
CONTAINERS = frozenset(suffix for reader in _BUILT_IN for suffix in reader.value.suffixes)


def suffix_of(path: str) -> str:
    """The ending of a name in lower case; that of a template such as `kernel.cu.in` is `.cu`."""
    stem, ending = posixpath.splitext(path.lower())
    inner = posixpath.splitext(stem)[1]
    return inner if ending == ".in" and inner in CUDA_SUFFIXES else ending


def is_source(path: str) -> bool:
    """Whether a file may hold code, by its name."""
    return (suffix := suffix_of(path)) in SOURCE_SUFFIXES or suffix in _by_suffix()


def refused() -> tuple[str, ...]:
    """One line for each plugin that was rejected."""
    return plugins.every(plugins.READERS, _wrong).refused


def text_of(path: Path, data: bytes) -> bytes:
    """The text of a file: its bytes, unless a plugin extracts the text.

    Raises:
        ReaderFailed: the plugin's reader failed.
    """
    content = _read(path.name, data) if suffix_of(path.name) not in CONTAINERS else None
    return data if content is None else content if isinstance(content, bytes) else b""


def parts(name: str, data: bytes, depth: int = MAX_DEPTH) -> Iterator[Part]:
    """The parts of a file and, recursively, their parts; names are unique.

    Raises:
        ReaderFailed: a reader failed.
    """
    content = _read(name, data) if depth else None
    paths: set[str] = set()
    for part in () if content is None or isinstance(content, bytes) else content:
        stem, ending = posixpath.splitext(part.name)
        path, count = part.name, 1
        while path in paths:
            count += 1
            path = f"{stem}-{count}{ending}"
        paths.add(path)
        outer = Part(path, part.segments, part.why)
        yield outer
        for inner in parts(path, plain(part.segments), depth - 1) if not part.why else ():
            yield inner.within(outer)


def read_part(path: Path) -> bytes | None:
    """The text of a part by its path, `FILE/PART`; None: there is no such part."""
    for file in path.parents:
        if suffix_of(file.name) in _by_suffix() and file.is_file():
            status = file.stat()
            if status.st_size > MAX_FILE_BYTES:
                return None
            return _texts(file, status.st_mtime_ns, status.st_size).get(path.relative_to(file).as_posix())
    return None


@lru_cache(maxsize=4)
def _texts(file: Path, changed: int, size: int) -> dict[str, bytes]:
    try:
        return {part.name: plain(part.segments) for part in parts(file.name, file.read_bytes())}
    except (ReaderFailed, OSError):
        return {}


def _read(name: str, data: bytes) -> bytes | list[Part] | None:
    """The result of the reader for this file name; None if there is no reader for it."""
    plugin = _by_suffix().get(suffix_of(name))
    if plugin is None:
        return None
    try:
        content = plugin.value.read(name, data)
        content = content if isinstance(content, bytes) else list(content)
    except Exception as error:  # a stranger's reader may raise anything
        raise ReaderFailed(f"{plugin.label} failed: {plugins.one_line(error)}") from error
    if isinstance(content, list) and not all(isinstance(part, Part) for part in content):
        raise ReaderFailed(f"{plugin.label} returned something else than bytes or parts")
    return content


@cache
def _by_suffix() -> dict[str, Plugin]:
    readers = (*_BUILT_IN, *plugins.every(plugins.READERS, _wrong).plugins)
    return {suffix: plugin for plugin in reversed(readers) for suffix in plugin.value.suffixes}


def _wrong(value: Any) -> str | None:
    if isinstance(value, type) or not isinstance(value, FormReader):
        return f"{value!r} is no reader: it has no suffixes and read(path, data)"[: plugins.MAX_SHOWN]
    endings = value.suffixes
    if isinstance(endings, str) or not endings or not all(isinstance(ending, str) for ending in endings):
        return "its suffixes are no list of endings"
    unfit = [ending for ending in endings if not ending.startswith(".") or ending != ending.lower()]
    if unfit:
        return f"{unfit[0]!r} is no ending in lower case with a dot"
    own_endings = [ending for ending in endings if ending in SOURCE_SUFFIXES | CONTAINERS]
    return f"kcurate reads {own_endings[0]} itself" if own_endings else None
