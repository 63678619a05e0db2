"""Local includes: which files a file includes, and from which translation unit it is best parsed.

Lookups never leave the tree. Not covered: splicing includes (`kcurate.cuda_source`).
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kcurate.core.grouping import grouped
from kcurate.cuda_source import local_includes
from kcurate.extract.walk import read_source
from kcurate.forms.readers import CUDA_SUFFIXES, HOST_SUFFIXES, suffix_of
from kcurate.suites import Tree


def inside(path: str) -> str | None:
    """The normalised path; None: it is absolute or leaves the tree."""
    short = posixpath.normpath(path)
    return None if short.startswith(("/", "..")) else short


@dataclass
class Reader:
    """Reads files of one tree by path relative to its root; each file is read once.

    `includes` are the names in the includes of each file scanned so far. `located` maps (name, includer) to
    the file for includes that no include folder resolves: the file whose path ends with the name, found by
    `locate` if that is set.
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
        """Whether a path is a readable text file; it is not read again if its includes are known."""
        return path in self.includes or self.read(path) is not None

    def names(self, path: str) -> tuple[str, ...]:
        """The names in the local includes of a file."""
        if path not in self.includes:
            self.includes[path] = local_includes(self.read(path) or b"")
        return self.includes[path]

    def resolve(self, name: str, includer: str, folders: Sequence[str] = ()) -> str | None:
        """The file that `#include "name"` in `includer` refers to; None: it is not in the tree.

        `folders` are include folders of the includer, searched before those of the tree. A file found in them
        is recorded in `located`, since a unit in another folder, with other flags, may include the includer
        too.
        """
        for folder in (posixpath.dirname(includer), *folders, *self.folders):
            path = inside(posixpath.join(folder, name))
            if path is not None and self.exists(path):
                if folder in folders:
                    self.located[name, includer] = path
                return path
        if (name, includer) not in self.located and self.locate is not None:
            self.located[name, includer] = self.locate(name, includer)
        return self.located.get((name, includer))


# Names of folders that are parts of a repository.
_INNER = re.compile(
    r"(?:src|source|sources|inc|include|includes|lib|libs|common|core|kernels?|cuda|gpu|cpu|cpp|csrc|host|device|"
    r"utils?|tools?|tests?|examples?|samples?|apps?|bench\w*|docs?|data|python|third_?party|external|extern|deps)\Z",
    re.IGNORECASE,
)
# Levels of folders that may be collections: repositories, or owners with repositories.
MAX_COLLECTED = 2


def repositories(paths: Iterable[str]) -> Callable[[str], str]:
    """A function from a path to the folder of its repository, `""` if the tree is a single repository.

    `paths` are all files of the tree. A folder is a collection of repositories if it has only folders, at
    least two, and none of them is named like a part of a repository (`src`, `include`).
    """
    folders: dict[str, set[str]] = defaultdict(set)
    with_files: set[str] = set()
    for path in paths:
        parts = path.split("/")
        for depth in range(min(len(parts), MAX_COLLECTED)):
            folder_above = "/".join(parts[:depth])
            if depth == len(parts) - 1:
                with_files.add(folder_above)
            else:
                folders[folder_above].add(parts[depth])

    def collection(folder: str) -> bool:
        names = folders[folder]
        return folder not in with_files and len(names) > 1 and not any(map(_INNER.match, names))

    collections = {folder for folder in list(folders) if collection(folder)}

    def repository(path: str) -> str:
        folder, parts = "", path.split("/")
        for depth in range(1, len(parts)):
            if folder not in collections:
                break
            folder = "/".join(parts[:depth])
        return folder

    return repository


def by_ending(
    paths: Iterable[str], repository: Callable[[str], str] = lambda path: ""
) -> Callable[[str, str], str | None]:
    """A search `locate(name, includer)` for the file that an include means if no include folder is known.

    It returns, of the paths in the includer's repository that end with the name, the one that shares most
    folders with the includer.
    """
    # Paths by repository and ending (the last one and two parts): a tree may have thousands of `utils.h`.
    ending_with = grouped(
        ((repository(path), ending), path)
        for path in paths
        for ending in {posixpath.basename(path), _ending(path)}
    )
    # For a repository and an include name: by folder, the two nearest paths below it that end with the name.
    # Two, since the nearest one may be the includer itself.
    nearest: dict[tuple[str, str], dict[str, list[str]]] = {}

    def below(inside: str, short: str) -> dict[str, list[str]]:
        if (inside, short) not in nearest:
            table: dict[str, list[str]] = {}
            same_ending = ending_with.get((inside, _ending(short)), ())
            fitting = (path for path in same_ending if f"/{path}".endswith(f"/{short}"))
            for path in sorted(fitting, key=lambda path: (path.count("/"), path)):
                for folder in folders_around(path):
                    if len(paths_here := table.setdefault(folder, [])) < 2:
                        paths_here.append(path)
            nearest[inside, short] = table
        return nearest[inside, short]

    def locate(name: str, includer: str) -> str | None:
        short = posixpath.normpath(name)
        while short.startswith("../"):
            short = short[3:]
        table = below(repository(includer), short)
        candidates = (path for folder in folders_around(includer) for path in table.get(folder, ()))
        return next((path for path in candidates if path != includer), None)

    return locate


def _ending(path: str) -> str:
    """The last two parts of a path."""
    return "/".join(path.rsplit("/", 2)[-2:])


def folders_around(path: str) -> Iterator[str]:
    """The folders around a path, innermost first; the tree's root (`""`) is last."""
    while path:
        path = posixpath.dirname(path)
        yield path


def include_graph(
    reader: Reader, paths: Iterable[str], folders_of: Callable[[str], Sequence[str]] = lambda path: ()
) -> dict[str, tuple[str, ...]]:
    """The files that each file includes, in order, for the files `paths` and all that they include.

    `folders_of` returns the include folders of a file.
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
    """For each file, the units to parse it from, best first: the tops that include it, then the file itself.

    A top is a file that no other file includes. Sources come before headers, CUDA sources first; then the
    nearest folder, then the name. A file in an include cycle without a top is its own root.
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
    """`top` and every file it includes, directly or indirectly."""
    seen = {top}
    pending = [top]
    while pending:
        for target in graph[pending.pop()]:
            if target not in seen:
                seen.add(target)
                pending.append(target)
    return seen


def _preference(path: str, top: str) -> tuple[int, int, str]:
    suffix = suffix_of(top)
    kind = 0 if suffix in CUDA_SUFFIXES else 1 if suffix in HOST_SUFFIXES else 2
    shared = posixpath.commonpath(map(posixpath.dirname, (top, path))) if "/" in top + path else ""
    return kind, -len(shared), top
