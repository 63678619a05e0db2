"""Shards of a dataset of files: finds them, and reads their rows one at a time.

A shard is a Parquet or JSON lines file, also as `.gz` or `.zst`, on this machine or on the Hub. Not covered:
what becomes of a row (`kcurate.extract.row_groups`).
"""

from __future__ import annotations

import glob
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from kcurate.core.json_text import shown
from kcurate.errors import InputError, OptionError, RemoteError
from kcurate.forms.readers import MAX_FILE_BYTES
from kcurate.hub import repository as hub

PARQUET = ".parquet"
LINES = (".jsonl", ".ndjson", ".json")
COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
SUFFIXES = (PARQUET, *(f"{suffix}{end}" for suffix in LINES for end in ("", *COMPRESSED)))
# The roles of columns, and the names that are tried unless `--column` sets one: ours, then The Stack's.
COLUMNS = {
    "content": ("content", "text", "code"),
    "path": ("path", "max_stars_repo_path", "file_path"),
    "repository": ("repository", "repo_name", "max_stars_repo_name", "repo"),
    "revision": ("revision", "revision_id", "max_stars_repo_head_hexsha", "commit"),
    "licence": ("licence", "license", "licenses", "detected_licenses", "max_stars_repo_licenses"),
}
# Bytes of content that are decoded at once, for rows of average size.
READ_BYTES = 16 * 1024 * 1024
# A line of JSON with the largest content. (Escapes can take more, but never do so throughout a large file.)
MAX_LINE_BYTES = 2 * MAX_FILE_BYTES


class RowOutcome(StrEnum):
    """What became of a row when its shard was read."""

    READ = "read"
    CORRUPT = "corrupt"
    TOO_LARGE = "too_large"
    NOT_JSON = "not_json"
    NO_CONTENT = "no_content"


@dataclass(frozen=True)
class Shard:
    """A shard: its path, or `hf://datasets/USER/NAME@REVISION/PATH`.

    `size_bytes` is its size as stored, `stamp` its modification time or revision.
    """

    name: str
    size_bytes: int
    stamp: str


@dataclass(frozen=True)
class Row:
    """One file of a dataset; `number` counts from 0. `licence` is as written, one in each line."""

    number: int
    content: bytes
    path: str | None
    repository: str | None
    revision: str | None
    licence: str | None


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be read; or `rows` consecutive ones, of which it is the first."""

    number: int
    outcome: RowOutcome
    why: str
    rows: int = 1


def find_shards(sources: Sequence[str]) -> list[Shard]:
    """The shards of `--from`, without repetitions.

    A source is a file, a glob, a folder, or a dataset on the Hub (`USER/NAME`).

    Raises:
        InputError: a source is none of these. RemoteError: the Hub is unreachable.
    """
    shards: dict[str, Shard] = {}
    for source in sources:
        for shard in _local(source) or _on_hub(source):
            shards.setdefault(shard.name, shard)
    return sorted(shards.values(), key=lambda shard: shard.name)


def _local(source: str) -> list[Shard]:
    names = [source] if Path(source).exists() else glob.glob(source, recursive=True)  # noqa: PTH207 - may be absolute
    files: list[Path] = []
    for name in names:
        path = Path(name).resolve()
        below = path.rglob("*") if path.is_dir() else [path]
        files += (file for file in below if file.is_file() and (file == path or file.name.endswith(SUFFIXES)))
    shards = []
    for path in files:
        if not path.name.endswith(SUFFIXES):
            raise InputError("not a shard", where=shown(str(path)), hint=f"one of {', '.join(SUFFIXES)}")
        status = path.stat()
        shards.append(Shard(str(path), status.st_size, str(status.st_mtime_ns)))
    return shards


def _on_hub(source: str) -> list[Shard]:
    where, hint = f"--from {source}", "a file, a folder, a glob in quotes, or USER/NAME on the Hub"
    try:
        hub.check_name(source)
    except InputError as error:
        raise InputError("no such file", where=where, hint=hint) from error
    revision, sizes = hub.dataset_files(source)
    shards = [
        Shard(f"{hub.SCHEME}{source}@{revision}/{path}", size, revision)
        for path, size in sizes.items()
        if path.endswith(SUFFIXES)
    ]
    if not shards:
        raise InputError("the dataset has no shards", where=where, hint=f"one of {', '.join(SUFFIXES)}")
    return shards


def check_columns(columns: Sequence[str]) -> None:
    """Refuse values of `--column` that are not ROLE=NAME.

    Raises:
        OptionError: a role is unknown, or a name is missing.
    """
    for column in columns:
        role, _, name = column.partition("=")
        if role not in COLUMNS or not name:
            hint = f"ROLE=NAME; a role is one of {', '.join(COLUMNS)}"
            raise OptionError(f"not a column: {column!r}", where="--column", hint=hint)


def rows(shard: Shard, columns: Sequence[str] = ()) -> Iterator[Row | BadRow]:
    """The rows of a shard in order; `columns` are the values of `--column`.

    Raises:
        InputError: it cannot be opened, or lacks a column.
    """
    column_options = dict(column.split("=", 1) for column in columns)
    try:
        with _opened(shard.name) as file:
            if shard.name.endswith(PARQUET):
                yield from _parquet_rows(file, shard, column_options)
            else:
                yield from _json_rows(file, shard, column_options)
    except RemoteError:
        raise
    except (OSError, ValueError, EOFError, RuntimeError) as error:
        raise InputError(f"not a shard that can be read: {_line(error)}", where=shown(shard.name)) from error


def _opened(name: str) -> IO[bytes]:
    return hub.open_file(name) if name.startswith(hub.SCHEME) else Path(name).open("rb")


def _chosen(shard: Shard, present: Sequence[str], column_options: Mapping[str, str]) -> dict[str, str]:
    """The column of each role that the shard has.

    Raises:
        InputError: there is no content, or a column that `--column` names is missing.
    """
    chosen = {}
    for role, names in COLUMNS.items():
        wanted = (column_options[role],) if role in column_options else names
        name = next((candidate for candidate in wanted if candidate in present), None)
        if name is not None:
            chosen[role] = name
        elif role in column_options or role == "content":
            have = ", ".join(map(shown, list(present)[:12])) or "none"
            hint = f"it has {have}: --column {role}=NAME"
            raise InputError(f"no column {wanted[0]!r}", where=shown(shard.name), hint=hint)
    return chosen


def _parquet_rows(file: IO[bytes], shard: Shard, column_options: Mapping[str, str]) -> Iterator[Row | BadRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
    chosen = _chosen(shard, parquet.schema_arrow.names, column_options)
    number = 0
    for index in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(index)
        at_once = max(1, READ_BYTES * group.num_rows // max(1, group.total_byte_size))
        end = number + group.num_rows
        try:
            for batch in parquet.iter_batches(
                min(at_once, 4096), row_groups=[index], columns=list(chosen.values()), use_threads=False
            ):
                roles = {role: batch.column(name) for role, name in chosen.items()}
                if pa.types.is_string(roles["content"].type) or pa.types.is_large_string(
                    roles["content"].type
                ):
                    roles["content"] = roles["content"].cast(pa.large_binary())
                too_large = _too_large(roles.values())
                for at in range(batch.num_rows):
                    if at in too_large:
                        yield BadRow(number, RowOutcome.TOO_LARGE, f"{too_large[at]} bytes")
                    else:
                        yield _row(number, {role: column[at].as_py() for role, column in roles.items()})
                    number += 1
        except (OSError, pa.ArrowException) as error:
            yield BadRow(number, RowOutcome.CORRUPT, f"row group {index}: {_line(error)}", end - number)
        number = end


def _too_large(columns: Iterable[Any]) -> dict[int, int]:
    """The rows with a value above `MAX_FILE_BYTES`, with its size; the value is not copied out of Arrow."""
    large = [column for column in columns if column.nbytes > MAX_FILE_BYTES]
    if not large:
        return {}
    import pyarrow as pa
    import pyarrow.compute as pc  # its functions import pandas, which takes half a second

    sizes: dict[int, int] = {}
    for column in large:
        if isinstance(column, pa.BinaryArray | pa.LargeBinaryArray | pa.StringArray | pa.LargeStringArray):
            lengths = pc.binary_length(column)
            for at in pc.indices_nonzero(pc.greater(lengths, MAX_FILE_BYTES)).to_pylist():
                sizes[at] = max(sizes.get(at, 0), lengths[at].as_py())
    return sizes


def _json_rows(file: IO[bytes], shard: Shard, column_options: Mapping[str, str]) -> Iterator[Row | BadRow]:
    import pyarrow as pa

    kind = next((kind for end, kind in COMPRESSED.items() if shard.name.endswith(end)), None)
    plain: Any = pa.CompressedInputStream(pa.PythonFile(file, "r"), kind) if kind else file
    lines = io.BufferedReader(plain, 1 << 20) if kind else plain
    chosen: dict[str, str] | None = None
    number = 0
    while True:
        try:
            line = lines.readline(MAX_LINE_BYTES)
        except (OSError, EOFError) as error:
            yield BadRow(number, RowOutcome.CORRUPT, f"the rest cannot be read: {_line(error)}")
            return
        if not line:
            return
        if not line.endswith(b"\n") and len(line) >= MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = lines.readline(MAX_LINE_BYTES)
            yield BadRow(number, RowOutcome.TOO_LARGE, f"a line of more than {MAX_LINE_BYTES} bytes")
        elif line.strip():
            try:
                data = json.loads(line)
            except (ValueError, RecursionError) as error:
                data = error
            if not isinstance(data, dict):
                why = _line(data) if isinstance(data, Exception) else "not an object"
                yield BadRow(number, RowOutcome.NOT_JSON, why)
            else:
                chosen = chosen or _chosen(shard, list(data), column_options)
                yield _row(number, {role: data.get(name) for role, name in chosen.items()})
        number += 1


def _row(number: int, values: Mapping[str, Any]) -> Row | BadRow:
    content = values["content"]
    if isinstance(content, str):
        content = content.encode("utf-8", "replace")
    if not isinstance(content, bytes):
        return BadRow(number, RowOutcome.NO_CONTENT, "the content is not text")
    if len(content) > MAX_FILE_BYTES:
        return BadRow(number, RowOutcome.TOO_LARGE, f"{len(content)} bytes")
    return Row(number, content, *(_text(values.get(role)) for role in list(COLUMNS)[1:]))


def _text(value: Any) -> str | None:
    """A value as text; the elements of a list (of licences) become lines."""
    if isinstance(value, list):
        value = "\n".join(sorted({str(element) for element in value if element}))
    return str(value).encode("utf-8", "replace").decode().strip() or None if value is not None else None


def _line(error: BaseException) -> str:
    """An error's message in one line."""
    return (" ".join(str(error).split()) or type(error).__name__)[:200]
