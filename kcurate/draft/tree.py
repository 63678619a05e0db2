"""From a kernel's record back to the host code of its translation unit.

The tree is the one given, else one that the workspace's runs of extract name. Not covered: what the host code
says (`host`).
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from kcurate.cuda_source.preprocess import splice
from kcurate.draft.host import Host
from kcurate.records import Kernel
from kcurate.workspace import Workspace

SOURCES = frozenset((".cu", ".cpp", ".cc", ".cxx", ".c"))
MAX_SIBLINGS = 24
MAX_BYTES = 1 << 20


def roots(trees: Sequence[Path], workspace: Workspace) -> tuple[Path, ...]:
    """Where source files may lie: the trees given, else those that extract was run on, newest first."""
    if trees:
        return tuple(trees)
    found: list[Path] = []
    for config in sorted(workspace.runs.glob("extract-*/config.json"), reverse=True):
        try:
            paths = json.loads(config.read_bytes()).get("paths", [])
        except (OSError, ValueError):
            continue
        found += [Path(str(path)) for path in paths]
    return tuple(dict.fromkeys(found))


def hosts(kernel: Kernel, places: Sequence[Path]) -> Iterator[Host]:
    """The units that may launch a kernel: the one that it was read in, then the files of its launch sites."""
    root = _root(kernel, places)
    if root is None:
        return
    for path in dict.fromkeys((kernel.root, *(site.path for site in kernel.launch_sites))):
        host = _host(root, path)
        if host is not None:
            yield host


def _root(kernel: Kernel, places: Sequence[Path]) -> Path | None:
    """The folder that the record's paths are relative to."""
    for place in places:
        for folder in (place, *place.resolve().parents):
            if (folder / kernel.span.path).is_file():
                return folder
    return None


@lru_cache(maxsize=8)
def _host(root: Path, path: str) -> Host | None:
    def read(name: str) -> bytes | None:
        try:
            return (root / name).read_bytes()
        except OSError:
            return None

    def resolve(name: str, includer: str) -> str | None:
        for folder in (posixpath.dirname(includer), posixpath.dirname(path), "include", ""):
            candidate = posixpath.normpath(posixpath.join(folder, name))
            if not candidate.startswith("..") and (root / candidate).is_file():
                return candidate
        return None

    text = splice(path, read, resolve)
    if text is None:
        return None
    parts, seen = [text.source], {*text.files, path}
    for other in _siblings(root, path):
        more = splice(other, read, resolve) if other not in seen else None
        if more is not None and sum(map(len, parts)) + len(more.source) <= MAX_BYTES:
            seen |= {other, *more.files}
            parts.append(more.source)
    return Host(b"\n".join(parts))


def _siblings(root: Path, path: str) -> list[str]:
    """The other source files of a unit's folder: callers often stand in one of them."""
    folder = (root / path).parent
    files = sorted(file for file in folder.iterdir() if file.suffix in SOURCES and file.is_file())
    own = [file.relative_to(root).as_posix() for file in files if file.is_relative_to(root)]
    return own if len(own) <= MAX_SIBLINGS else []
