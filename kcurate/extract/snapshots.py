"""Snapshots: the files of a repository at one revision that are needed to read the kernels of one file.

They are written to the workspace and named after their content, so equal snapshots are stored once. Not
covered: units outside the kernel's folder and those above it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from kcurate.core import store
from kcurate.core.worker_pool import Pool
from kcurate.extract.flags import CMAKE_FILE, MAKEFILES, FlagFinder, given_flags
from kcurate.extract.git_objects import Repository
from kcurate.extract.includes import Reader, by_ending, folders_around, include_graph, reachable
from kcurate.extract.merge import merge
from kcurate.extract.rights import with_rights
from kcurate.extract.sources import bundles, choose_units, find_files
from kcurate.extract.units import read_unit, unit_task
from kcurate.extract.walk import Filter
from kcurate.forms.readers import SOURCE_SUFFIXES, suffix_of
from kcurate.records import Kernel
from kcurate.suites.manifest import GENERIC

# A folder with more sources than the first number is a collection of programs: only those that include the
# kernel's file are written. With more than the second number, none but the kernel's file is.
MAX_SIBLINGS, MAX_COLLECTED = 24, 100
# At most so many files are written; a typical unit has a few dozen.
MAX_SNAPSHOT_FILES = 400
_BUILD_FILES = (*MAKEFILES, CMAKE_FILE)
_LICENCE_FILE = re.compile(r"licen[cs]e|copying|copyright|notice|eula", re.IGNORECASE)


class _TreeReader(Reader):
    """Reads the files of a repository at one revision."""

    def __init__(self, repository: Repository, listing: Mapping[str, str]) -> None:
        super().__init__(Path(), locate=by_ending(filter(_is_source, listing)))
        self.repository, self.listing = repository, listing

    def read(self, path: str) -> bytes | None:
        short = posixpath.normpath(path)
        if short not in self.cache:
            known = short in self.listing and len(self.cache) < MAX_SNAPSHOT_FILES
            self.cache[short] = self.repository.read(self.listing[short]) if known else None
        return self.cache[short]

    def exists(self, path: str) -> bool:
        return posixpath.normpath(path) in self.listing


def write_snapshot(repository: Repository, commit: str, path: str, snapshots: Path) -> Path:
    """Write the files that reading `path` at a revision needs; returns the snapshot's folder.

    The folder's name is made of the repository's name and a hash of the content.
    """
    listing = repository.files(commit)
    reader = _TreeReader(repository, listing)
    above = list(folders_around(path))
    folder = above[0]
    sources: dict[str, list[str]] = {folder_above: [] for folder_above in above}
    paths = set()
    for file in listing:
        folder_of, name = posixpath.split(file)
        if folder_of in sources and _is_source(name):
            sources[folder_of].append(file)
        elif folder_of in sources and (name in _BUILD_FILES or _LICENCE_FILE.search(name)):
            paths.add(file)
    roots = {path, *(sources[folder] if len(sources[folder]) <= MAX_SIBLINGS else ())}
    near = [
        file for folder_of in above if len(sources[folder_of]) <= MAX_COLLECTED for file in sources[folder_of]
    ]
    graph = include_graph(reader, [path, *near])
    roots |= {file for file in near if path in reachable(graph, file)}
    paths |= {file for root in roots for file in reachable(graph, root)}
    chosen = sorted(file for file in paths if not any(part in listing for part in _parents(file)))
    digest = store.content_id(*(f"{file} {listing[file]}" for file in chosen))[:12]
    root = snapshots / f"{repository.name}-{digest}"
    for file in chosen:
        if not (root / file).exists() and (data := repository.read(listing[file])) is not None:
            store.write_bytes(root / file, data, durable=False)
    return root


def _is_source(path: str) -> bool:
    return suffix_of(path) in SOURCE_SUFFIXES


def _parents(path: str) -> list[str]:
    return [str(parent) for parent in Path(path).parents][:-1]


@lru_cache(maxsize=32)
def kernels_of(
    root: Path, path: str, define: tuple[str, ...], licence: str | None
) -> tuple[tuple[Kernel, bytes], ...]:
    """The kernels of one file of a snapshot with their standalone code; launches in the other files count."""
    ((files,),) = map(bundles, find_files((root,), GENERIC, Filter()))
    with Pool(1) as pool:
        choose_units(files, pool, FlagFinder(root, given_flags(define, (), root), {}))
        files.roots = {path: files.roots.get(path, [])}
        results = {}
        for unit in [*files.roots[path], *files.launchers]:
            results[unit] = read_unit(unit_task(files, unit))
            if unit in files.roots[path] and results[unit].kernels_of(path):
                files.roots[path] = [unit]
        tree = with_rights(merge(files, results, {}), licence, pool)
    return tuple((kernel, tree.codes[kernel.id]) for kernel in tree.kernels)
