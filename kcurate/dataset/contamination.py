"""Overlap with evaluation sets: how many of a code's word runs stand in a reference item, and the other way.

A set is a folder (every source file in it is an item), or one JSON-lines or Parquet file (every row is an
item: its text columns together). Containment of n-grams of tokens finds copied text; it cannot find the same
computation written anew, and KernelBench asks for computations that everybody writes. The card says so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcurate import codec
from kcurate.cuda_source import normalise
from kcurate.errors import InputError, RecordError

NGRAM = 13
# Share of n-grams (of the row's code in the item, or the other way) from which a row is refused.
LIMIT = 0.5
# An item or code of fewer n-grams says nothing: a signature and a loop head are shared by chance.
LEAST = 8
_SOURCES = frozenset({".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp", ".py", ".txt"})
_TOKEN = re.compile(rb"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
_LIST_LIMIT_BYTES = 4_000_000

Grams = frozenset[bytes]


@dataclass(frozen=True)
class Overlap:
    """A row and the item of a set that its code has most in common with; `share` is 0 to 1."""

    row: str
    set: str
    item: str
    share: float


@dataclass(frozen=True)
class Reference:
    """One evaluation set: its name, the n-grams of each item, and which items an n-gram stands in."""

    name: str
    items: Mapping[str, Grams]
    index: Mapping[bytes, Sequence[str]]

    def overlap(self, row: Mapping[str, Any]) -> Overlap | None:
        """The item that the row has most in common with; None when they share no n-gram."""
        best: Overlap | None = None
        for side in ("slow_code", "fast_code"):
            own = grams(row[side].encode())
            shared: dict[str, int] = defaultdict(int)
            for gram in own:
                for item in self.index.get(gram, ()):
                    shared[item] += 1
            for item, count in sorted(shared.items()):
                share = self._share(count, own, self.items[item])
                if best is None or share > best.share:
                    best = Overlap(row["id"], self.name, item, share)
        return best

    @staticmethod
    def _share(count: int, own: Grams, item: Grams) -> float:
        sizes = [len(one) for one in (own, item) if len(one) >= LEAST]
        return count / min(sizes) if sizes else 0.0


def grams(text: bytes) -> Grams:
    """The runs of `NGRAM` tokens."""
    tokens = _TOKEN.findall(text)
    return frozenset(b" ".join(tokens[i : i + NGRAM]) for i in range(len(tokens) - NGRAM + 1))


def read(path: Path) -> Reference:
    """A set from a folder or file.

    Raises:
        InputError: no such path, or nothing in it that can be compared. RecordError: a file whose rows cannot
            be read.
    """
    if not path.exists():
        raise InputError("no such evaluation set", where=str(path), hint="a folder, .jsonl or .parquet file")
    found: dict[str, set[bytes]] = defaultdict(set)
    for name, text in _texts(path):
        found[name] |= grams(text)
    items = {name: frozenset(inside) for name, inside in found.items() if inside}
    if not items:
        raise InputError("nothing to compare with", where=str(path), hint="sources, .jsonl or .parquet")
    index: dict[bytes, list[str]] = defaultdict(list)
    for name, inside in items.items():
        for gram in inside:
            index[gram].append(name)
    return Reference(path.stem if path.is_file() else path.resolve().name, items, index)


def _texts(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            inside = file.relative_to(path)
            hidden = any(part.startswith(".") for part in inside.parts)
            if file.is_file() and not hidden and file.suffix in _SOURCES | {".jsonl", ".parquet"}:
                yield from ((f"{inside.as_posix()}{row}", text) for row, text in _file(file))
    else:
        yield from ((f"{path.name}{row}", text) for row, text in _file(path))


def _file(file: Path) -> Iterator[tuple[str, bytes]]:
    """The items of one file: what tells them apart, and their text."""
    if file.suffix == ".jsonl":
        lines = enumerate(file.read_bytes().splitlines(), 1)
        yield from _rows(
            codec.parse(line, where=f"{file}:{number}", lone_surrogates=True)
            for number, line in lines
            if line.strip()
        )
    elif file.suffix == ".parquet":
        yield from _rows(_parquet_rows(file))
    elif file.stat().st_size <= _LIST_LIMIT_BYTES:
        yield "", normalise(file.read_bytes())  # Python too, for the CUDA code in its strings


def _parquet_rows(file: Path) -> Iterable[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: Iterable[Any] = pq.read_table(file).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RecordError(
            f"not Parquet: {error}", where=str(file), hint="repair it or leave it out"
        ) from error
    return rows


def _rows(rows: Iterable[Any]) -> Iterator[tuple[str, bytes]]:
    for number, row in enumerate(rows):
        values = row.values() if isinstance(row, dict) else (row,)
        texts = [value for value in values if isinstance(value, str)]
        yield f"#{number}", normalise("\n".join(texts).encode("utf-8", "replace"))
