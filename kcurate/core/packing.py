"""Moves the files of a packed workspace into shards, merges small shards, and makes files of rows again.

A process that is killed leaves each file in its place, or in a shard that is complete. Not covered: reading
them (`kcurate.core.packs`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from operator import attrgetter
from pathlib import Path

from kcurate.core.pack_shards import (
    FOLDER,
    PACKED,
    SHARD,
    Row,
    Shard,
    Shards,
    cannot_write,
    is_lines,
    listed,
    merged,
    newest,
    shards_of,
    write,
)
from kcurate.core.packs import (
    MARKER,
    MAX_FILE_BYTES,
    MOVING,
    REMOVED,
    Place,
    joined,
    locked,
    moving,
    removal_mark,
    walk,
)

# Files of one new shard, and after how many files that a process wrote they are moved.
FILES_IN_SHARD = 50_000
MOVE_AFTER = 10_000
# Shards of this size are not merged with newer ones.
MERGED_BYTES = 1 << 28
_LOG = logging.getLogger(__name__)


def start(root: Path) -> None:
    """Mark a workspace as packed.

    Raises:
        InputError: it cannot be written.
    """
    try:
        (root / FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(root / FOLDER, error) from error


def is_packed(root: Path) -> bool:
    """Whether a workspace is packed."""
    return (root / FOLDER).is_dir() and (root / MARKER).is_file()


class _Written:
    """How many files this process has written into packed workspaces."""

    count = 0


def after_writing(place: Place | None) -> None:
    """Count a written file; after `MOVE_AFTER` of them, pack its workspace, unless a file is being
    written."""
    if place is None:
        return
    _Written.count += 1
    if _Written.count >= MOVE_AFTER and pack(place.root, wait=False):
        _Written.count = 0


@dataclass(frozen=True)
class _File:
    """A file to be moved, as it was when it was read; `kind`: file, removed or lines."""

    row: Row
    path: Path
    kind: str
    status: os.stat_result


def pack(root: Path, *, wait: bool = True) -> int:
    """Move all files into shards and merge small shards; returns how many files were moved.

    A process that is killed leaves every file in its place or in a shard that is complete.

    Raises:
        InputError: a shard cannot be written; the files stay.
    """
    moved_files = 0
    with locked(root, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)) as is_held:
        if not is_held:
            return 0
        _tidy(root)
        while batch := _batch(root, number := newest(root / FOLDER) + 1):
            write(root / FOLDER, number, number, _rows(batch))
            _unlink(root, batch)
            moved_files += len(batch)
        _merge(shards_of(root))
    return moved_files


def _tidy(root: Path) -> None:
    """Remove leftovers of a killed process: unfinished shards, and shards and lines that are in another
    shard."""
    folder = root / FOLDER
    current = listed(folder)
    for path in folder.iterdir():
        if path.name.startswith(".part-") or (SHARD.fullmatch(path.name) and path.name not in current):
            path.unlink()
    for path in (root / "verdicts").glob(".*.jsonl.*"):
        if (match := MOVING.fullmatch(path.name)) and int(match[2]) <= newest(folder):
            path.unlink()


def _batch(root: Path, number: int) -> list[_File]:
    """The files of the next shard, in its order."""
    return sorted(islice(_movable(root, number), FILES_IN_SHARD), key=lambda file: file.row.key)


def _movable(root: Path, number: int) -> Iterator[_File]:
    moving = set[str]()
    for path in sorted((root / "verdicts").glob(".*.jsonl.*")):
        if match := MOVING.fullmatch(path.name):
            moving.add(match[1])
            yield _File(Row(f"verdicts/{match[1]}"), path, "lines", path.stat())
    for top in PACKED:
        for below, entry in walk(root / top):
            name, path = f"{top}/{below}", Path(entry.path)
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode) or not _is_text(name):
                continue
            if is_lines(name):
                if path.name not in moving and not path.name.startswith("."):
                    yield _File(
                        Row(name), path.rename(path.with_name(f".{path.name}.{number}")), "lines", status
                    )
            elif removed := REMOVED.fullmatch(path.name):
                original = f"{name[: len(name) - len(path.name)]}{removed[1]}"
                if not path.with_name(removed[1]).exists():
                    yield _File(Row(original, True), path, "removed", status)
                else:
                    path.unlink()
            elif not path.name.startswith(".") and status.st_size <= MAX_FILE_BYTES:
                yield _File(Row(name), path, "file", status)


def _is_text(name: str) -> bool:
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def _rows(batch: Sequence[_File]) -> Iterator[Row]:
    for moved in batch:
        if moved.kind == "lines":
            with moved.path.open("rb") as file:
                for line in file:
                    yield moved.row._replace(content=line)
        else:
            content = moved.path.read_bytes() if moved.kind == "file" else None
            yield moved.row._replace(content=content)


def _unlink(root: Path, batch: Sequence[_File]) -> None:
    """Remove files that are in a shard now, unless an editor saved them meanwhile, and empty folders."""
    for moved in batch:
        with contextlib.suppress(FileNotFoundError):
            now = moved.path.lstat()
            if (now.st_ino, now.st_mtime_ns, now.st_size) == (
                moved.status.st_ino, moved.status.st_mtime_ns, moved.status.st_size,
            ):  # fmt: skip
                moved.path.unlink()
    tops = {root / top for top in PACKED}
    for folder in sorted({moved.path.parent for moved in batch}, reverse=True):
        with contextlib.suppress(OSError):
            while folder not in tops:
                folder.rmdir()
                folder = folder.parent


def _merge(shards: Shards) -> None:
    """Merge the newest shards, until each shard is larger than all newer ones together.

    A shard with a damaged part stays as it is.
    """
    while True:
        run = _run(shards)
        if len(run) < 2:
            return
        oldest = run[0].first == min(first for first, _ in listed(shards.folder).values())
        rows = merged(run, "", content=True)
        kept = (row for row in rows if not (oldest and row.removed))
        before = _damage(run)
        try:
            write(shards.folder, run[0].first, run[-1].last, _unless_damaged(kept, run, before))
        except _DamagedError:
            continue
        for shard in run:
            shard.path.unlink()


class _DamagedError(Exception):
    """A shard turned out to be damaged while it was read."""


def _damage(run: Sequence[Shard]) -> int:
    return sum(len(shard.damaged) for shard in run)


def _unless_damaged(rows: Iterable[Row], run: Sequence[Shard], before: int) -> Iterator[Row]:
    yield from rows
    if _damage(run) != before:
        raise _DamagedError


def _run(shards: Shards) -> list[Shard]:
    """The newest shards to merge into one, oldest first: those not much larger than the newer ones
    together."""
    run: list[Shard] = []
    size = 0
    readable = {shard.path.name: shard for shard in shards}
    for name in sorted(listed(shards.folder), reverse=True):
        shard = readable.get(name)
        large = shard is not None and run and (shard.size > 2 * size or shard.size > MERGED_BYTES)
        if shard is None or shard.damaged or large:
            break
        run.insert(0, shard)
        size += shard.size
    return run


def unpack(root: Path, folders: Sequence[str] = ()) -> tuple[int, int]:
    """Write the shards' records as files again; then remove the shards, unless `folders` are named or one is
    damaged.

    Returns how many were written, and how many could not be because a file or a folder is in the way.

    Raises:
        InputError: a file cannot be written (a full disk); the shards stay.
    """
    with locked(root, fcntl.LOCK_EX):
        _tidy(root)
        shards = shards_of(root)
        written = blocked = 0
        for folder in folders or ("",):
            for path, rows in groupby(merged(shards, folder, content=True), attrgetter("path")):
                target = root / path
                try:
                    written += _put(target, rows, newest(shards.folder), whole=not folders)
                except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
                    blocked += 1
                    _LOG.warning("%s: %s", target, error.strerror)
                except OSError as error:
                    raise cannot_write(target, error) from error
        if not folders and not blocked and not shards.damaged:
            _remove_shards(root)
    return written, blocked


def _put(target: Path, rows: Iterable[Row], newest: int, *, whole: bool) -> bool:
    """Write one file unless a newer one exists; in a file of lines the packed lines come first. Returns
    whether it wrote."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder is in the way of a packed file")
    contents: Iterator[bytes] = (row.content for row in rows if row.content is not None)
    later_parts: list[Path] = []
    if target.suffix == ".jsonl" and target.parent.name == "verdicts" and whole:
        packed = list(contents)
        if target.exists() and target.read_bytes().startswith(b"".join(packed)):
            return False  # an earlier unpacking was killed
        later_parts = [*moving(target, newest), *([target] if target.exists() else [])]
        contents = joined([*packed, *(path.read_bytes() for path in later_parts)])
    elif os.path.lexists(target) or removal_mark(target).exists():
        return False
    first = next(contents, None)
    if first is None:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    try:
        with part.open("wb") as file:
            file.writelines(chain([first], contents))
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    for path in later_parts:
        if path != target:
            path.unlink()
    return True


def _remove_shards(root: Path) -> None:
    folder = root / FOLDER
    aside = Path(tempfile.mkdtemp(dir=root, prefix=".unpacked-"))
    folder.rename(aside / FOLDER)
    for top in PACKED:
        for below, entry in walk(root / top):
            if REMOVED.fullmatch(entry.name) and entry.is_file():
                (root / top / below).unlink()
    shutil.rmtree(aside)
