"""Files of a workspace by path, whether they are files or rows of a shard.

A workspace with the folder `packs/` is packed: a write makes a file, which later becomes a row
(`kcurate.core.packing`). A file takes precedence over a row.

packs/lock            shared by writers, exclusive while files become rows
.<name>.removed       a row's path that was removed
.<name>.jsonl.<n>     lines that are about to become rows of shard n

Not covered: what is in a file (`kcurate.core.store`), limits on files (`kcurate.core.own_files`).
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import re
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from kcurate.core.pack_shards import FOLDER, Row, is_inside, is_lines, merged, newest, shards_of

# Marks a workspace, so that `extract` does not read its own output as a source tree.
MARKER = ".kcurate-workspace"
MAX_FILE_BYTES = 1 << 26
REMOVED = re.compile(r"\.(.+)\.removed")
MOVING = re.compile(r"\.(.+\.jsonl)\.(\d+)")


class Place(NamedTuple):
    """A path in a packed workspace, `name` below `root`."""

    root: Path
    name: str

    @classmethod
    def of(cls, path: Path) -> Place | None:
        """The place of a path; None: it is in no packed workspace."""
        # Of strings: it is asked several times a file, and a `Path` costs more than the look at the disk.
        absolute = top = os.path.abspath(path)  # noqa: PTH100
        # `os.access` first: it raises no exception for what is not there, as inside of `isdir`.
        while not (
            os.access(f"{top}/{FOLDER}", os.F_OK)
            and os.path.isdir(f"{top}/{FOLDER}")  # noqa: PTH112
            and os.path.isfile(f"{top}/{MARKER}")  # noqa: PTH113
        ):
            if len(top) <= 1:
                return None
            top = top[: top.rfind("/")] or "/"
        return cls(Path(top), absolute[len(top) :].lstrip("/"))


@contextlib.contextmanager
def locked(root: Path, kind: int) -> Iterator[bool]:
    """Hold the workspace's lock; gives False if it is taken and `kind` has LOCK_NB."""
    try:
        lock = os.open(root / FOLDER / "lock", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:  # unpacked meanwhile, or read-only: nobody moves files there
        yield True
        return
    try:
        try:
            fcntl.flock(lock, kind)
        except BlockingIOError:
            is_held = False
        else:
            is_held = True
        yield is_held
    finally:
        os.close(lock)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Place | None]:
    """Keep the files of a packed workspace in place while one of them is written; gives its place."""
    place = Place.of(path)
    if place is None or not is_inside(place.name):
        yield place
        return
    with locked(place.root, fcntl.LOCK_SH):
        yield place


def read(path: Path) -> bytes | None:
    """The content of a path in the shards; None: it is not there, or removed."""
    row = _row(Place.of(path))
    return row.content if row is not None and not row.removed else None


def _row(place: Place | None) -> Row | None:
    if place is None or not is_inside(place.name) or removal_mark(place.root / place.name).exists():
        return None
    return shards_of(place.root).find(place.name)


def exists(path: Path) -> bool:
    """Whether a path is a file, also one in the shards."""
    return path.is_file() or read(path) is not None or path.is_file()


def is_folder(path: Path) -> bool:
    """Whether a path is a folder, also one of which only the shards have files."""
    if path.is_dir():
        return True
    place = Place.of(path)
    return place is not None and next(find(path, "*"), None) is not None


def remove(path: Path) -> None:
    """Remove a file, also from the shards; nothing happens if it is not there."""
    with writing(path):
        if _row(Place.of(path)) is not None:
            mark = removal_mark(path)
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        path.unlink(missing_ok=True)


def removal_mark(path: Path) -> Path:
    """The marker file that says that the row of a path was removed."""
    return path.with_name(f".{path.name}.removed")


def find(folder: Path, *patterns: str) -> Iterator[Path]:
    """Everything below a folder whose name matches one of the patterns, in `Path` order, one by one."""
    wanted = re.compile("|".join(re.escape(pattern).replace(r"\*", ".*") for pattern in patterns))
    place = Place.of(folder)
    if place is None:
        yield from (folder / name for name, _ in walk(folder) if wanted.fullmatch(name.rpartition("/")[2]))
        return
    prefix = f"{place.name}/" if place.name else ""
    with locked(place.root, fcntl.LOCK_SH):
        shards = list(shards_of(place.root))
        files = sorted({*_loose(folder, prefix)}, key=attrgetter("key"))
    rows = (row for row in merged(shards, place.name, content=False) if row.path.startswith(prefix))
    for path, same in groupby(heapq.merge(rows, files, key=attrgetter("key")), attrgetter("path")):
        *_, newest = same
        if not newest.removed and wanted.fullmatch(path.rpartition("/")[2]):
            yield folder / path.removeprefix(prefix)


def _loose(folder: Path, prefix: str) -> Iterator[Row]:
    """The files below a folder of a packed workspace, as rows without content."""
    for below, _ in walk(folder):
        parent, _, name = f"{prefix}{below}".rpartition("/")
        if match := REMOVED.fullmatch(name):
            if not (folder / below).with_name(match[1]).exists():
                yield Row(f"{parent}/{match[1]}", True)
        elif match := MOVING.fullmatch(name):
            yield Row(f"{parent}/{match[1]}")
        else:
            yield Row(f"{prefix}{below}")


def walk(folder: Path, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """The files and folders below a folder in order, links to folders not followed."""
    try:
        with os.scandir(folder) as entries:
            ordered = sorted(entries, key=attrgetter("name"))
    except OSError:
        return
    for entry in ordered:
        yield f"{prefix}{entry.name}", entry
        if entry.is_dir(follow_symlinks=False):
            yield from walk(folder / entry.name, f"{prefix}{entry.name}/")


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file of lines, those in the shards first; none if it is missing."""
    place = Place.of(path)
    if place is None or not is_lines(place.name):
        if path.exists():
            with path.open("rb") as file:
                yield from iter(lambda: file.readline(MAX_FILE_BYTES), b"")
        return
    with locked(place.root, fcntl.LOCK_SH), contextlib.ExitStack() as stack:
        shards = list(shards_of(place.root))
        paths = [*moving(path, newest(shards_of(place.root).folder)), *([path] if path.exists() else [])]
        files = [stack.enter_context(each.open("rb")) for each in paths]
        left_open = stack.pop_all()
    with left_open:
        packed = (row.content for row in merged(shards, place.name, content=True) if row.content)
        yield from joined(chain(packed, *files))


def joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts of a file of lines joined; a partial line of a killed writer gets a line end."""
    complete = True
    for part in parts:
        if not complete:
            yield b"\n"
        yield part
        complete = part.endswith(b"\n")


def moving(path: Path, newest: int) -> list[Path]:
    """The files of lines that were about to be moved when a process was killed."""
    if not path.parent.is_dir():
        return []
    names = (MOVING.fullmatch(entry) for entry in sorted(each.name for each in path.parent.iterdir()))
    return [
        path.with_name(name[0]) for name in names if name and name[1] == path.name and int(name[2]) > newest
    ]
