"""Copies among the rows of all shards: equal content, and near duplicates in different repositories.

Of equal rows the first is kept. A row whose similarity to a kept row of another repository is at least `NEAR`
is a near duplicate of it; versions of a kernel within one repository are kept, since they may be pairs.
Memory: about 60 bytes for each row that holds a kernel. Not covered: the hashes
(`kcurate.extract.row_groups`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kcurate.core import store
from kcurate.cuda_source.compare.minhash import PERMUTATIONS
from kcurate.extract.row_groups import BANDS, NEAR, Array, chunk_path, column

# Pairs whose signatures are read from disk at once (4 MB).
COMPARED_TOGETHER = 4096
_ROW_BYTES = 4 * PERMUTATIONS


@dataclass(frozen=True)
class Copies:
    """The copies among the rows of one group, by ordinal.

    `dropped` maps a copy to (the row it is a copy of, whether it is a near duplicate). `licences` maps a kept
    row to the licences that its copies state (None: nothing).
    """

    dropped: Mapping[int, tuple[int, bool]] = field(default_factory=dict)
    licences: Mapping[int, tuple[str | None, ...]] = field(default_factory=dict)


def write_copies(folder: Path, chunks: Sequence[tuple[int, int]], groups: int) -> None:
    """Find the copies and write them by group; does nothing if an earlier run did.

    Raises:
        InputError: they cannot be written.
    """
    path = folder / "copies.arrow"
    if path.exists():
        return
    try:
        rows = _Rows(folder, chunks)
    except OSError as error:
        raise store.cannot_write(folder / "signatures", error) from error
    kept_of, near = rows.exact(), np.zeros(rows.count, bool)
    with (folder / "signatures").open("rb") as file:
        while (copies := rows.near(kept_of, file)).size:
            kept_of[copies[:, 0]], near[copies[:, 0]] = copies[:, 1], True
    while (kept_of != (further := kept_of[kept_of])).any():  # copies of rows that are now copies themselves
        kept_of = further
    _write(path, rows, kept_of, near, groups)


class _Rows:
    """The hashes of all rows that hold a kernel, in shard order; MinHash signatures stay on disk."""

    def __init__(self, folder: Path, chunks: Sequence[tuple[int, int]]) -> None:
        columns: dict[str, list[Array]] = defaultdict(list)
        number_of: dict[str, int] = {}
        with (folder / "signatures").open("wb") as signatures:
            for number, chunk in chunks:
                with np.load(chunk_path(folder, number, chunk).with_suffix(".npz")) as hashes:
                    order = np.argsort(hashes["ordinal"])
                    texts = [text.decode() for text in hashes["licences"].tolist()]
                    numbers = np.array(
                        [number_of.setdefault(text, len(number_of)) for text in texts], np.int32
                    )
                    columns["licence"].append(numbers[hashes["licence"][order]])
                    for name in ("digest", "ordinal", "group", "repository"):
                        columns[name].append(hashes[name][order])
                    signatures.write(hashes["signature"][order].tobytes())
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        self.licences = list(number_of)
        self.ordinal: Array = joined.get("ordinal", np.zeros(0, np.int64))
        self.count = len(self.ordinal)
        self.group: Array = joined.get("group", np.zeros(0, np.int32))
        self.licence: Array = joined.get("licence", np.zeros(0, np.int32))
        self.digest: Array = joined.get("digest", np.zeros((0, 2), np.uint64))
        self.repository: Array = joined.get("repository", np.zeros((0, 2), np.uint64))[:, 0]
        self._folder, self._chunks = folder, chunks

    def exact(self) -> Array:
        """For each row the index of the first row with its content: (count,)."""
        order = np.lexsort((np.arange(self.count), self.digest[:, 1], self.digest[:, 0]))
        digests = self.digest[order]
        begins = np.ones(self.count, bool)
        begins[1:] = (digests[1:] != digests[:-1]).any(axis=1)
        kept_of = np.empty(self.count, np.int64)
        kept_of[order] = order[_starts(begins)]
        return kept_of

    def near(self, kept_of: Array, signatures: BinaryIO) -> Array:
        """The kept rows that are near duplicates of an earlier kept row: (n, 2), row and earlier row.

        `kept_of` has, for each row, the row that is kept for it. One pass may leave near duplicates, so
        callers repeat it until it returns none.
        """
        kept_rows = np.flatnonzero(kept_of == np.arange(self.count))
        earlier: dict[int, list[int]] = defaultdict(list)
        for band in range(BANDS):
            for pairs in self._candidates(kept_rows, self._band(band)[kept_rows]):
                new = [(late, early) for late, early in pairs.tolist() if early not in earlier.get(late, ())]
                alike = _alike(np.array(new, np.int64).reshape(-1, 2), signatures)
                for late, early in alike.tolist():
                    earlier[late].append(early)
        dropped: dict[int, int] = {}
        for late in sorted(earlier):
            original = next((early for early in sorted(earlier[late]) if early not in dropped), None)
            if original is not None:
                dropped[late] = original
        return np.array(sorted(dropped.items()), np.int64).reshape(-1, 2)

    def _band(self, band: int) -> Array:
        """The LSH keys of all rows in one band: (count,)."""
        parts = [np.zeros(0, np.uint64)]
        for number, chunk in self._chunks:
            with np.load(chunk_path(self._folder, number, chunk).with_suffix(".npz")) as hashes:
                parts.append(hashes["bands"][band][np.argsort(hashes["ordinal"])])
        return np.concatenate(parts)

    def _candidates(self, rows: Array, keys: Array) -> Iterator[Array]:
        """Rows with the same band key in different repositories: (n, 2) blocks of row and earlier row.

        Each row appears once, with the first row of its key that is in another repository. `keys` belong to
        `kept`.
        """
        order = np.lexsort((rows, keys))
        sorted_keys, members = keys[order], rows[order]
        repository = self.repository[members]
        begins = np.ones(len(members), bool)
        begins[1:] = sorted_keys[1:] != sorted_keys[:-1]
        starts = _starts(begins)
        is_other = repository != repository[starts]
        # For each run of equal keys: the position of the first row outside the first row's repository.
        other_positions = np.where(is_other, np.arange(len(members)), len(members))
        first_other = (
            np.minimum.reduceat(other_positions, np.flatnonzero(begins)) if len(members) else other_positions
        )
        first_other = first_other[np.cumsum(begins) - 1] if len(members) else other_positions
        earlier = np.where(is_other, starts, first_other)
        late = np.flatnonzero(earlier < np.arange(len(members)))
        for at in range(0, len(late), COMPARED_TOGETHER):
            block = late[at : at + COMPARED_TOGETHER]
            yield np.stack([members[block], members[earlier[block]]], axis=1)


def _starts(begins: Array) -> Array:
    """For each position the position where its run begins; `begins` is True at the start of a run."""
    starts: Array = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
    return starts


def _alike(pairs: Array, signatures: BinaryIO) -> Array:
    """The pairs whose signatures agree in a share of at least `NEAR`: (n, 2)."""
    rows, index_of = np.unique(pairs, return_inverse=True)
    signature_of = np.empty((len(rows), PERMUTATIONS), np.uint32)
    for at, row in enumerate(rows.tolist()):
        signatures.seek(row * _ROW_BYTES)
        signature_of[at] = np.frombuffer(signatures.read(_ROW_BYTES), np.uint32)
    index_of = index_of.reshape(-1, 2)
    agreement = (signature_of[index_of[:, 0]] == signature_of[index_of[:, 1]]).mean(axis=1)
    alike: Array = pairs[agreement >= NEAR]
    return alike


def _write(path: Path, rows: _Rows, kept_of: Array, near: Array, groups: int) -> None:
    """Write one Arrow record batch of JSON lines for each group."""
    import pyarrow as pa

    dropped = np.flatnonzero(kept_of != np.arange(rows.count))
    licences: dict[int, set[str]] = defaultdict(set)
    for index in dropped.tolist():
        licences[int(kept_of[index])].add(rows.licences[rows.licence[index]])
    lines: dict[int, list[bytes]] = defaultdict(list)

    def add(index: int, **fields: Any) -> None:
        line = {"ordinal": int(rows.ordinal[index]), **fields}
        lines[int(rows.group[index])].append(json.dumps(line).encode())

    for index in dropped.tolist():
        add(index, of=int(rows.ordinal[kept_of[index]]), near=bool(near[index]))
    for index, texts in licences.items():
        add(index, licences=[text or None for text in sorted(texts)])
    schema = pa.schema([("line", pa.large_binary())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for group in range(groups):
            writer.write_batch(pa.record_batch([column(lines[group], schema.field(0).type)], schema))
    store.write_bytes(path, sink.getvalue().to_pybytes(), durable=False)


def read_copies(folder: Path, group: int) -> Copies:
    """The copies among the rows of one group."""
    import pyarrow as pa

    with pa.memory_map(str(folder / "copies.arrow")) as file:
        lines = [json.loads(line) for line in pa.ipc.open_file(file).get_batch(group).column(0).to_pylist()]
    return Copies(
        {line["ordinal"]: (line["of"], line["near"]) for line in lines if "of" in line},
        {line["ordinal"]: tuple(line["licences"]) for line in lines if "licences" in line},
    )
