"""Local includes: which files a file includes, and from which translation unit it is best parsed.

Lookups never leave the tree. Not covered: splicing includes (`kcurate.cuda_source`).
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kcurate.cuda_source import local_includes
from kcurate.extract.walk import CUDA_SUFFIXES, HOST_SUFFIXES, read_source
from kcurate.suites import Tree


def inside(path: str) -> str | None:
    """The normalised `path`, or None if it is absolute or leaves the tree."""
    short = posixpath.normpath(path)
    return None if short.startswith(("/", "..")) else short


@dataclass
class Reader:
    """Reads files of one tree by path relative to its root; each file is read once.

    `includes` holds the include names of files scanned so far. `located` are includes that the folders do not
    give, by (name, includer): those whose path ends with the name, by `locate` if it is set.
    """

    root: Path
    folders: tuple[str, ...] = ()
    located: dict[tuple[str, str], str | None] = field(default_factory=dict)
    locate: Callable[[str, str], str | None] | None = None
    cache: dict[str, bytes | None] = field(default_factory=dict)
    includes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: Tree) -> Reader:
        """The reader of a tree, with the include folders of its layout."""
        return cls(tree.root, tree.manifest.layout.include)

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, or None if it is not a readable text file."""
        if path not in self.cache:
            short = inside(path)
            data = read_source(self.root / short) if short else None
            self.cache[path] = data if isinstance(data, bytes) else None
        return self.cache[path]

    def exists(self, path: str) -> bool:
        """Whether it is a readable text file; not read again if its includes are already known."""
        return path in self.includes or self.read(path) is not None

    def names(self, path: str) -> tuple[str, ...]:
        """The names in a file's includes."""
        if path not in self.includes:
            self.includes[path] = local_includes(self.read(path) or b"")
        return self.includes[path]

    def resolve(self, name: str, includer: str, folders: Sequence[str] = ()) -> str | None:
        """The file that `#include "name"` in `includer` refers to; None if it is not in the tree.

        `folders` are include folders of this file, searched before those of the tree.
        """
        for folder in (posixpath.dirname(includer), *folders, *self.folders):
            path = inside(posixpath.join(folder, name))
            if path is not None and self.exists(path):
                return path
        if (name, includer) not in self.located and self.locate is not None:
            self.located[name, includer] = self.locate(name, includer)
        return self.located.get((name, includer))


def by_ending(paths: Iterable[str]) -> Callable[[str, str], str | None]:
    """A search for the file that an include means when no include folder is known: `locate(name, includer)`.

    Of the paths that end with the name, the one that shares most folders with the includer.
    """
    named: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        named[posixpath.basename(path)].append(path)

    def locate(name: str, includer: str) -> str | None:
        short = posixpath.normpath(name)
        while short.startswith("../"):
            short = short[3:]
        places = [
            p
            for p in named.get(posixpath.basename(short), ())
            if f"/{p}".endswith(f"/{short}") and p != includer
        ]
        return min(places, key=lambda path: (-_shared(path, includer), path.count("/"), path), default=None)

    return locate


def _shared(path: str, other: str) -> int:
    """How many leading folders two paths have in common."""
    pairs = zip(path.split("/")[:-1], other.split("/")[:-1], strict=False)
    return next(
        (at for at, (first, two) in enumerate(pairs) if first != two), min(path.count("/"), other.count("/"))
    )


def include_graph(
    reader: Reader, paths: Iterable[str], folders_of: Callable[[str], Sequence[str]] = lambda path: ()
) -> dict[str, tuple[str, ...]]:
    """For each given file, and each file reachable from them, the files it includes, in order.

    `folders_of` gives the include folders of a file.
    """
    graph: dict[str, tuple[str, ...]] = {}
    pending = list(paths)
    while pending:
        path = pending.pop()
        if path in graph:
            continue
        folders = folders_of(path)
        included = (reader.resolve(name, path, folders) for name in reader.names(path))
        graph[path] = tuple(dict.fromkeys(target for target in included if target is not None))
        pending.extend(graph[path])
    return graph


def roots_of(graph: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    """For each file, the units to parse it from, best first: the tops that reach it, then the file itself.

    A top is a file that no other file includes. Sources come before headers, CUDA sources first; then
    the nearest folder, then the name. Files in a cycle that no top reaches are their own root.
    """
    included = {target for path, targets in graph.items() for target in targets if target != path}
    roots: dict[str, list[str]] = {path: [] for path in graph}
    for top in sorted(graph.keys() - included):
        for path in reachable(graph, top):
            roots[path].append(top)
    for path, tops in roots.items():
        tops.sort(key=partial(_preference, path))
        if path not in tops:
            tops.append(path)
    return roots


def reachable(graph: Mapping[str, tuple[str, ...]], top: str) -> set[str]:
    """`top` and everything it includes, directly or indirectly."""
    seen = {top}
    pending = [top]
    while pending:
        for target in graph[pending.pop()]:
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return seen


def _preference(path: str, top: str) -> tuple[int, int, str]:
    suffix = Path(top).suffix.lower()
    kind = 0 if suffix in CUDA_SUFFIXES else 1 if suffix in HOST_SUFFIXES else 2
    shared = (
        posixpath.commonpath([posixpath.dirname(top), posixpath.dirname(path)]) if "/" in top + path else ""
    )
    return kind, -len(shared), top
