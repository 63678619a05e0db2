"""Shards of a packed workspace: Parquet files of records by path, the newest of which counts.

packs/<first>-<last>.parquet   rows sorted by path: `path`, `removed`, `content`; made of the shards with the
                               numbers `first` to `last`, which are no longer read

A shard or a group of rows that is damaged is reported in one line and holds nothing. Not covered: which files
become rows (`kcurate.core.packing`), files that are not in a shard yet (`kcurate.core.packs`).
"""

from __future__ import annotations

import heapq
import logging
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from kcurate.errors import InputError

FOLDER = "packs"
PACKED = ("kernels", "pairs", "verdicts")
# What a group of rows holds; no larger group is read.
GROUP_ROWS, GROUP_BYTES = 1024, 1 << 21
MAX_GROUP_BYTES = 1 << 28
SHARD = re.compile(r"(\d{8,})-(\d{8,})\.parquet")
_LOG = logging.getLogger(__name__)


class Row(NamedTuple):
    """A file of the workspace, or one line of a file of lines; `content` None: not requested, or removed."""

    path: str
    removed: bool = False
    content: bytes | None = None

    @property
    def key(self) -> str:
        """Sorts like `pathlib.Path`: folder by folder."""
        return self.path.replace("/", "\0")


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("path", pa.string()), ("removed", pa.bool_()), ("content", pa.binary())])


class Shard:
    """One open shard; damaged parts are reported once and count as empty.

    Raises:
        ValueError, OSError: it cannot be opened, or lacks the columns of a shard.
    """

    def __init__(self, path: Path, first: int, last: int) -> None:
        import pyarrow.parquet as pq

        self.path, self.first, self.last = path, first, last
        self.file = pq.ParquetFile(path)
        wanted = [(column.name, column.type) for column in _schema()]
        if [(column.name, column.type) for column in self.file.schema_arrow] != wanted:
            raise ValueError(f"its columns are not {', '.join(name for name, _ in wanted)}")
        self.size = path.stat().st_size
        self.damaged: set[int] = set()

    @cached_property
    def bounds(self) -> list[tuple[str, str]]:
        """The least and the greatest path of each group."""
        columns = (self.file.metadata.row_group(i).column(0) for i in range(self.file.num_row_groups))
        stats = (column.statistics for column in columns)
        return [(each.min, each.max) if each and each.has_min_max else ("", "\U0010ffff") for each in stats]

    def groups(self, low: str, high: str) -> Iterator[int]:
        """The groups that may hold a path from `low` to `high`."""
        return (i for i, (least, most) in enumerate(self.bounds) if least <= high and low <= most)

    def read(self, group: int, *, content: bool) -> list[Row]:
        """The rows of a group that name a path of a workspace."""
        import pyarrow as pa

        if group in self.damaged:
            return []
        columns = ["path", "removed", *(["content"] if content else [])]
        try:
            size = self.file.metadata.row_group(group).total_byte_size
            if size > MAX_GROUP_BYTES:
                raise ValueError(f"{size / 1e6:,.0f} MB in one group of rows")
            table = self.file.read_row_group(group, columns=columns, use_threads=False)
            rows = [Row(*values) for values in zip(*(c.to_pylist() for c in table.columns), strict=True)]
            if any(not isinstance(row.path, str) or not is_inside(row.path) for row in rows):
                raise ValueError("a path that leads outside the workspace")
        except (pa.ArrowException, OSError, ValueError) as error:
            self.damaged.add(group)
            _LOG.warning("%s: rows %d: %s; passed over", self.path, group, _line(error))
            return []
        return rows

    def rows(self, folder: str, *, content: bool) -> Iterator[Row]:
        """The rows at or below a folder, in order; of repeated paths only one."""
        low, high = (folder, f"{folder}0") if folder else ("", "\U0010ffff")  # "0" follows "/"
        last: Row | None = None
        for group in self.groups(low, high):
            for row in self.read(group, content=content):
                if not _below(row.path, folder):
                    continue
                again = last is not None and row.path == last.path and not is_lines(row.path)
                if again or (last is not None and row.key < last.key):
                    self._report_order(group, row.path)
                    continue
                yield row
                last = row

    def _report_order(self, group: int, path: str) -> None:
        if -1 - group not in self.damaged:
            self.damaged.add(-1 - group)
            _LOG.warning("%s: %s: twice, or not sorted; passed over", self.path, path)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def is_inside(path: str) -> bool:
    """Whether a path may be one of a row: below one of the folders `PACKED`."""
    parts = path.split("/")
    return len(parts) > 1 and parts[0] in PACKED and not {"", ".", ".."} & {*parts} and "\0" not in path


def _below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def is_lines(path: str) -> bool:
    """Whether a path names a file that only grows, line by line."""
    return path.startswith("verdicts/") and path.endswith(".jsonl")


@lru_cache(maxsize=8)
def _group(shard: Shard, group: int) -> dict[str, Row]:
    return {row.path: row for row in reversed(shard.read(group, content=True))}


class Shards:
    """The shards of a workspace, as this process last saw them."""

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER
        self._open: dict[str, tuple[tuple[int, int], Shard | None]] = {}
        self._changed_ns = self._listed_ns = -1

    def __iter__(self) -> Iterator[Shard]:
        """The readable shards, oldest first."""
        self._refresh()
        return iter([shard for _, (_, shard) in sorted(self._open.items()) if shard is not None])

    @property
    def damaged(self) -> list[str]:
        """The unreadable shards."""
        self._refresh()
        return sorted(name for name, (_, shard) in self._open.items() if shard is None or shard.damaged)

    def _refresh(self) -> None:
        """Open new shards. A folder that changed within a second of the last look may have changed again."""
        try:
            changed_ns = self.folder.stat().st_mtime_ns
        except FileNotFoundError:  # unpacked meanwhile
            self._open = {}
            return
        if changed_ns == self._changed_ns and self._listed_ns - changed_ns > 1_000_000_000:
            return
        self._listed_ns, self._changed_ns = time.time_ns(), changed_ns
        while True:
            ends_by_name = listed(self.folder)
            try:
                self._open = {name: self._opened(name, *ends) for name, ends in ends_by_name.items()}
                return
            except FileNotFoundError:  # merged meanwhile
                continue

    def _opened(self, name: str, first: int, last: int) -> tuple[tuple[int, int], Shard | None]:
        import pyarrow as pa

        status = (self.folder / name).stat()
        stamp = (status.st_ino, status.st_mtime_ns)
        if name in self._open and self._open[name][0] == stamp:
            return self._open[name]
        try:
            return stamp, Shard(self.folder / name, first, last)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            _LOG.warning("%s: %s; passed over", self.folder / name, _line(error))
            return stamp, None

    def find(self, path: str) -> Row | None:
        """The newest row of a path."""
        for shard in reversed(list(self)):
            for group in shard.groups(path, path):
                if (row := _group(shard, group).get(path)) is not None:
                    return row
        return None


@lru_cache(maxsize=16)
def shards_of(root: Path) -> Shards:
    """The shards of a packed workspace."""
    return Shards(root)


def listed(folder: Path) -> dict[str, tuple[int, int]]:
    """Each shard's first and last number; without those that were merged into another."""
    matches = [match for path in folder.iterdir() if (match := SHARD.fullmatch(path.name))]
    ends = {match[0]: (int(match[1]), int(match[2])) for match in matches}
    return {
        name: (first, last)
        for name, (first, last) in ends.items()
        if not any(a <= first and last <= b and (a, b) != (first, last) for a, b in ends.values())
    }


def newest(folder: Path) -> int:
    """The number of the newest shard; 0: there is none."""
    return max((last for _, last in listed(folder).values()), default=0)


def merged(shards: Iterable[Shard], folder: str, *, content: bool) -> Iterator[Row]:
    """The newest row of each path, and all lines of files of lines, in order."""
    streams = [shard.rows(folder, content=content) for shard in shards]
    for path, rows in groupby(heapq.merge(*streams, key=attrgetter("key")), attrgetter("path")):
        if is_lines(path):
            yield from rows
        else:
            *_, newest = rows
            yield newest


def write(folder: Path, first: int, last: int, rows: Iterable[Row]) -> None:
    """Write a shard; it appears only when complete.

    Raises:
        InputError: it cannot be written, or a row cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"{first:08d}-{last:08d}.parquet"
    part = None
    try:
        handle, part = tempfile.mkstemp(dir=folder, prefix=".part-")
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o644)
            with pq.ParquetWriter(
                file, _schema(), compression="zstd", use_dictionary=False, write_statistics=["path"]
            ) as writer:
                for group in _groups(rows):
                    writer.write_table(pa.Table.from_pylist([row._asdict() for row in group], _schema()))
            file.flush()
            os.fsync(handle)
        Path(part).replace(path)
    except BaseException as error:
        if part is not None:
            Path(part).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row.content or b"")
        if len(group) == GROUP_ROWS or size >= GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def cannot_write(path: Path, error: OSError) -> InputError:
    """The error of a shard or a file that cannot be written."""
    hint = "check the folder's permissions and free space; nothing was lost"
    return InputError(f"cannot write: {error.strerror or error}", where=str(path), hint=hint)
