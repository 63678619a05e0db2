"""Finds every file at or below a path, each with an outcome; nothing is parsed here.

Folders are visited in byte order of their names, so the result does not depend on the file system. Symbolic
links are followed unless their target was already visited, which also ends cycles.
"""

from __future__ import annotations

import os
import re
import stat
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from kcurate.core.names import RECORDS
from kcurate.core.workspace import MARKER
from kcurate.forms import readers
from kcurate.forms.readers import CONTAINERS, MAX_FILE_BYTES
from kcurate.suites import Manifest, Tree, find_tree

# Version-control folders hold copies of source files under mangled names, checkpoints those of notebooks.
SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", ".bzr", "CVS", "__pycache__", ".ipynb_checkpoints"})
STALE = re.compile(
    r"\.(?:cuh?|hh?|hpp|hxx|inl|c|cc|cpp|cxx)(?:[.~_](?:old|copy|orig|bak|save|rej|swp)|~)\d*$", re.I
)
# Leading bytes searched for a NUL, as git and grep do.
BINARY_PROBE_BYTES = 8192
# Suites are detected in folders up to this many levels below the given path.
DETECTION_DEPTH = 3


class FileOutcome(StrEnum):
    """Outcome of a file; every file found by the walk ends with exactly one."""

    EXTRACTED = "extracted"
    BELOW_DEVICE_FRACTION = "below_device_fraction"
    NO_KERNEL = "no_kernel"
    UNREAD_KERNEL = "unread_kernel"
    BEHIND_CONDITION = "behind_condition"
    PARSER_FAILED = "parser_failed"
    NOT_SOURCE = "not_source"
    OUTSIDE_LAYOUT = "outside_layout"
    EXCLUDED = "excluded"
    STALE_COPY = "stale_copy"
    SEEN = "already_seen"
    BROKEN_LINK = "broken_link"
    NOT_A_FILE = "not_a_file"
    UNREADABLE = "unreadable"
    UNREADABLE_FOLDER = "unreadable_folder"
    TOO_LARGE = "too_large"
    BINARY = "binary"
    READER_FAILED = "reader_failed"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    NAME_TWICE = "name_twice"
    BAD_PATH = "bad_path"
    UTF_16 = "utf_16"


# Rows of a dataset whose kernels are those of another row; other files may include them.
COPIES = (FileOutcome.DUPLICATE, FileOutcome.NEAR_DUPLICATE)


@dataclass(frozen=True)
class Found:
    """One file: its tree, its path relative to the tree's root, its outcome so far.

    `outcome` is None for a source file that is still to be scanned.
    """

    tree: Tree
    path: str
    outcome: FileOutcome | None


@dataclass(frozen=True)
class Filter:
    """Globs on the path relative to the tree's root: `include` (empty: all files), then `exclude`."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def passes(self, path: str) -> bool:
        """Whether a file is selected; a glob without a slash also matches the file name alone."""

        def matches(glob: str) -> bool:
            name = path.rpartition("/")[2]
            return fnmatchcase(path, glob) or ("/" not in glob and fnmatchcase(name, glob))

        return (not self.include or any(map(matches, self.include))) and not any(map(matches, self.exclude))


@dataclass
class Walker:
    """Walks paths; `seen` has (device, inode) of everything that any walk visited."""

    manifests: Mapping[str, Manifest]
    filter: Filter
    seen: set[tuple[int, int]] = field(default_factory=set)
    _links: list[tuple[Path, Tree]] = field(default_factory=list)
    _in_workspace: bool = False

    def walk(self, path: Path, tree: Tree, *, detect: bool = True) -> Iterator[Found]:
        """Every file at or below `path` (absolute); `detect`: recognise suites in folders below it."""
        self._in_workspace = os.path.lexists(path / MARKER)
        yield from self._visit(path, tree, DETECTION_DEPTH if detect else 0)
        while self._links:
            links, self._links = self._links, []
            for link, owner in links:
                yield from self._visit_link(link, owner)

    def _visit(self, path: Path, tree: Tree, depth: int) -> Iterator[Found]:
        try:
            status = path.stat()
        except OSError:
            yield Found(tree, _relative(path, tree), FileOutcome.UNREADABLE)
            return
        key = (status.st_dev, status.st_ino)
        if stat.S_ISDIR(status.st_mode):
            if key not in self.seen:
                self.seen.add(key)
                yield from self._visit_folder(path, tree, depth)
        elif path.is_symlink() and key in self.seen:
            yield Found(tree, _relative(path, tree), FileOutcome.SEEN)
        else:
            self.seen.add(key)
            name = _relative(path, tree)
            yield Found(tree, name, self._first_outcome(tree, name, status))

    def _visit_folder(self, folder: Path, tree: Tree, depth: int) -> Iterator[Found]:
        inner = find_tree(folder, self.manifests, parents=False) if depth else None
        if inner is not None:
            tree, depth = inner, 1
        try:
            with os.scandir(folder) as entries:
                children = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        except OSError:
            yield Found(tree, _relative(folder, tree), FileOutcome.UNREADABLE_FOLDER)
            return
        for entry in children:
            path = folder / entry.name
            if entry.is_symlink():
                self._links.append((path, tree))
            elif not (entry.is_dir(follow_symlinks=False) and self._passed_over(path)):
                yield from self._visit(path, tree, max(depth - 1, 0))

    def _visit_link(self, link: Path, tree: Tree) -> Iterator[Found]:
        try:
            status = link.stat()
        except OSError:  # a missing target, or a link to itself
            yield Found(tree, _relative(link, tree), FileOutcome.BROKEN_LINK)
            return
        if (status.st_dev, status.st_ino) in self.seen:
            yield Found(tree, _relative(link, tree), FileOutcome.SEEN)
        else:
            yield from self._visit(link, tree, 0)

    def _passed_over(self, folder: Path) -> bool:
        """Whether a folder is skipped: version control, a workspace, or kcurate's records in a workspace."""
        if folder.name in SKIPPED_FOLDERS or os.path.lexists(folder / MARKER):
            return True
        return self._in_workspace and any(os.path.lexists(folder / name) for name in RECORDS)

    def _first_outcome(self, tree: Tree, name: str, status: os.stat_result) -> FileOutcome | None:
        """The outcome that is known before the file is opened; None: it is still open."""
        if not stat.S_ISREG(status.st_mode):
            return FileOutcome.NOT_A_FILE
        if STALE.search(name):
            return FileOutcome.STALE_COPY
        if not readers.is_source(name):
            return FileOutcome.NOT_SOURCE
        if tree.locate(name) is None:
            container = readers.suffix_of(name) in CONTAINERS
            return FileOutcome.NOT_SOURCE if container else FileOutcome.OUTSIDE_LAYOUT
        if not self.filter.passes(name):
            return FileOutcome.EXCLUDED
        return FileOutcome.TOO_LARGE if status.st_size > MAX_FILE_BYTES else None


def _relative(path: Path, tree: Tree) -> str:
    try:
        return path.relative_to(tree.root).as_posix()
    except ValueError:
        return path.as_posix()


def read_source(path: Path) -> bytes | FileOutcome:
    """The bytes of a source file, or of a part of one (`answer.py/source.cu`); or why it has none."""
    try:
        with path.open("rb", buffering=0) as file:
            # Read only the file's size: allocating a buffer of the maximum size costs five times as much.
            data = file.read(min(os.fstat(file.fileno()).st_size, MAX_FILE_BYTES) + 1)
    except NotADirectoryError:
        part = readers.read_part(path)
        return FileOutcome.UNREADABLE if part is None else part
    except OSError:
        return FileOutcome.UNREADABLE
    if len(data) > MAX_FILE_BYTES:
        return FileOutcome.TOO_LARGE
    try:
        data = readers.text_of(path, data)
    except readers.ReaderFailed:
        return FileOutcome.READER_FAILED
    if b"\0" in data[:BINARY_PROBE_BYTES]:
        return FileOutcome.UTF_16 if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else FileOutcome.BINARY
    return data
