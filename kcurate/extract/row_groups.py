"""Groups the rows of shards by repository, on disk: no process ever holds more than a few megabytes of rows.

Each shard is read once, in a worker, and written as chunks. A chunk is an Arrow file with one record batch
for each *group*; all rows of a repository are in one group. For rows that hold a kernel, a chunk also has
hashes to find copies. Not covered: which copy is kept (`kcurate.extract.copies`).
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kcurate.core import codec, store
from kcurate.core.grouping import grouped
from kcurate.cuda_source import normalised_tokens
from kcurate.cuda_source.compare import minhash
from kcurate.errors import InputError
from kcurate.extract.shards import BadRow, Row, RowOutcome, Shard, rows

# A file with neither word defines no kernel; only rows with one are compared with others.
MARKS = b"__global__", b"triton"
CHUNK_BYTES = 32 * 1024 * 1024
# The ordinal of a row: the number of its shard times this, plus the row's number in the shard.
ROWS_OF_A_SHARD = 1 << 40
MAX_LISTED = 1000
# Rows with this MinHash similarity are near duplicates; `kcurate build` has the same limit for pairs.
NEAR = 0.95
BAND_ROWS = minhash.rows_of_a_band(NEAR)
BANDS = minhash.PERMUTATIONS // BAND_ROWS

Array = npt.NDArray[Any]
T = TypeVar("T")


@dataclass(frozen=True)
class ShardTask:
    """A shard to read: its number, the values of `--column`, the number of groups, the output folder."""

    shard: Shard
    number: int
    columns: tuple[str, ...]
    groups: int
    folder: Path


@dataclass(frozen=True)
class ShardReport:
    """What became of a shard: its number of chunks, and rows counted by outcome.

    `bad` are the first rows that cannot be read; `refused`: why the shard could not be read to its end.
    """

    chunks: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    bad: tuple[BadRow, ...] = ()
    refused: str | None = None


@dataclass(frozen=True)
class Stored:
    """A row of a group; `ordinal` is its number in all shards."""

    ordinal: int
    content: bytes
    path: str | None
    repository: str | None
    revision: str | None
    licence: str | None


def report_path(folder: Path, number: int) -> Path:
    """The path of a shard's report, which is written last: if it exists, the shard is done."""
    return folder / "shards" / f"{number}.json"


def chunk_path(folder: Path, number: int, chunk: int) -> Path:
    """The path of a chunk's rows; its hashes have the same name with the suffix `.npz`."""
    return folder / "chunks" / f"{number}-{chunk}.arrow"


def read_report(path: Path, cls: type[T]) -> T | None:
    """The report of a finished task; None: it is not finished."""
    try:
        data = json.loads(path.read_bytes())
    except OSError:
        return None
    return codec.from_data(cls, data, where=str(path))


def read_shard(task: ShardTask) -> ShardReport:
    """Read a shard in a worker; write its chunks and its report.

    Raises:
        InputError: they cannot be written. RemoteError: the Hub is unreachable.
    """
    counts: Counter[str] = Counter()
    bad: list[BadRow] = []
    waiting: list[Row] = []
    chunks = waiting_bytes = 0
    refused = None

    def flush() -> None:
        nonlocal chunks, waiting, waiting_bytes
        if waiting:
            _write_chunk(task, chunks, waiting)
            chunks, waiting, waiting_bytes = chunks + 1, [], 0

    stream = rows(task.shard, task.columns)
    while True:
        try:
            row = next(stream, None)
        except InputError as error:
            refused = f"{error.what} ({error.hint})" if error.hint else error.what
            break
        if row is None:
            break
        if isinstance(row, BadRow):
            counts[row.outcome] += row.rows
            bad += [row] if len(bad) < MAX_LISTED else []
            continue
        counts[RowOutcome.READ] += 1
        waiting.append(row)
        waiting_bytes += len(row.content)
        if waiting_bytes > CHUNK_BYTES:
            flush()
    flush()
    report = ShardReport(chunks, dict(sorted(counts.items())), tuple(bad), refused)
    data = json.dumps(codec.to_data(report)).encode()
    store.write_bytes(report_path(task.folder, task.number), data, durable=False)
    return report


def group_of(row: Row, groups: int) -> int:
    """The group of a row's repository and revision; a row without a repository is one by itself."""
    name = row.content if row.repository is None else f"{row.repository}\0{row.revision or ''}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest()) % groups


def _write_chunk(task: ShardTask, chunk: int, chunk_rows: Sequence[Row]) -> None:
    import pyarrow as pa

    first = task.number * ROWS_OF_A_SHARD
    placed = sorted((group_of(row, task.groups), row.number, row) for row in chunk_rows)
    by_group = grouped((group, row) for group, _, row in placed)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, _schema(), options=options) as writer:
        for group in range(task.groups):
            members = by_group[group]
            ordinals = np.array([first + row.number for row in members], np.int64)
            numbers = pa.Array.from_buffers(pa.int64(), len(members), [None, pa.py_buffer(ordinals)])
            contents = column([row.content for row in members], pa.large_binary())
            texts = ([getattr(row, name) for row in members] for name in _TEXTS)
            columns = (
                column([None if value is None else value.encode() for value in text], pa.large_string())
                for text in texts
            )
            writer.write_batch(pa.record_batch([numbers, contents, *columns], _schema()))
    path = chunk_path(task.folder, task.number, chunk)
    store.write_bytes(path.with_suffix(".npz"), _hashes(first, placed), durable=False)
    store.write_bytes(path, sink.getvalue().to_pybytes(), durable=False)


def column(values: Sequence[bytes | None], kind: Any) -> Any:
    """An Arrow column. Not by `pa.array`, which imports pandas if it is installed (half a second)."""
    import pyarrow as pa

    contents = [value or b"" for value in values]
    ends = np.cumsum([0, *map(len, contents)], dtype=np.int64)
    validity = np.packbits(np.array([value is not None for value in values], bool), bitorder="little")
    return pa.Array.from_buffers(
        kind, len(values), list(map(pa.py_buffer, (validity, ends, b"".join(contents))))
    )


_TEXTS = ("path", "repository", "revision", "licence")


def _schema() -> Any:
    import pyarrow as pa

    texts = [(name, pa.large_string()) for name in _TEXTS]
    return pa.schema([("ordinal", pa.int64()), ("content", pa.large_binary()), *texts])


def _hashes(first: int, placed: Sequence[tuple[int, int, Row]]) -> bytes:
    """The `.npz` file for a chunk: an array entry for each row that holds a kernel."""
    marked = [(group, row) for group, _, row in placed if any(mark in row.content for mark in MARKS)]
    licences = sorted({row.licence or "" for _, row in marked})
    number_of = {licence: number for number, licence in enumerate(licences)}
    least = [minhash.signature(minhash.shingles(normalised_tokens(row.content))) for _, row in marked]
    signatures = np.array(least, np.uint32).reshape(-1, minhash.PERMUTATIONS)
    banded = signatures[:, : BANDS * BAND_ROWS].reshape(-1, BANDS, BAND_ROWS).astype(np.uint64)
    weights = np.frombuffer(hashlib.shake_128(b"bands").digest(8 * BAND_ROWS), np.uint64) | np.uint64(1)
    file = io.BytesIO()
    np.savez(
        file,
        digest=_numbers(row.content for _, row in marked),
        ordinal=np.array([first + row.number for _, row in marked], np.int64),
        group=np.array([group for group, _ in marked], np.int32),
        repository=_numbers((row.repository or str(row.number)).encode() for _, row in marked),
        licence=np.array([number_of[row.licence or ""] for _, row in marked], np.int32),
        licences=np.array([licence.encode() for licence in licences] or [b""]),
        bands=(banded * weights).sum(axis=2).T,
        signature=signatures,
    )
    return file.getvalue()


def _numbers(texts: Iterator[bytes]) -> Array:
    """128 bits of each text's hash: (n, 2) uint64."""
    digests = b"".join(hashlib.blake2b(text, digest_size=16).digest() for text in texts)
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)


def read_group(folder: Path, chunks: Sequence[tuple[int, int]], group: int) -> list[Stored]:
    """The rows of a group in the order of the shards; `chunks` are (shard, chunk)."""
    import pyarrow as pa

    stored: list[Stored] = []
    for number, chunk in chunks:
        with pa.memory_map(str(chunk_path(folder, number, chunk))) as file:
            batch = pa.ipc.open_file(file).get_batch(group)
            stored += [Stored(**values) for values in batch.to_pylist()]
    return sorted(stored, key=lambda row: row.ordinal)
