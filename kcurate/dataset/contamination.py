"""Overlap with evaluation sets, by shared n-grams of tokens.

A set is a folder (every source file is an item), or one file of rows in JSON, JSON lines or Parquet (every
row is an item). Python that uses Triton is also compared without comments, in the layout of our rows. N-gram
containment finds copied text. It cannot find an independent implementation of the same computation: for three
sets `sources/relatives.json` lists, by family, the tasks that compute the same.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kcurate.core import codec, resources
from kcurate.cuda_source import normalise
from kcurate.errors import InputError, RecordError
from kcurate.reward.splits import KERNELBENCH
from kcurate.triton_source import bare_python

NGRAM = 13
# A row is refused from this share on: common n-grams over the n-grams of the smaller of row and item.
LIMIT = 0.5
# Texts with fewer n-grams are ignored: a signature and a loop header match by chance.
LEAST = 8
_ROWS = frozenset({".json", ".jsonl", ".parquet"})
_SOURCES = frozenset({".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp", ".py", ".txt"})
_TOKEN = re.compile(rb"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
_LIST_LIMIT_BYTES = 4_000_000

Grams = frozenset[bytes]


@dataclass(frozen=True)
class Overlap:
    """A row and the most similar item of a set; `share` is 0 to 1."""

    row: str
    set: str
    item: str
    share: float


@dataclass(frozen=True)
class Reference:
    """One evaluation set: its name, the n-grams of each item, and the items of each n-gram."""

    name: str
    items: Mapping[str, Grams]
    index: Mapping[bytes, Sequence[str]]

    def related_task(self, family: str) -> str | None:
        """A task of this set that computes the same as a family, if the set is listed in `relatives`."""
        known = (name for name in relatives(family) if name.partition("/")[0].lower() in self.name.lower())
        return next(known, None)

    def overlap(self, row: Mapping[str, Any]) -> Overlap | None:
        """The most similar item; None if no n-gram is shared."""
        best: Overlap | None = None
        for side in ("slow_code", "fast_code"):
            of_side = grams(row[side].encode())
            shared: dict[str, int] = defaultdict(int)
            for gram in of_side:
                for item in self.index.get(gram, ()):
                    shared[item] += 1
            for item, count in sorted(shared.items()):
                sizes = [len(hashes) for hashes in (of_side, self.items[item]) if len(hashes) >= LEAST]
                share = count / min(sizes) if sizes else 0.0
                if best is None or share > best.share:
                    best = Overlap(row["id"], self.name, item, share)
        return best


@cache
def _by_family() -> Mapping[str, tuple[str, ...]]:
    data = json.loads((resources.sources_dir() / "relatives.json").read_text("utf-8"))
    return {family: tuple(names) for family, names in data["families"].items()}


def relatives(family: str) -> tuple[str, ...]:
    """Tasks of KernelBench, robust-kbench and TritonBench that compute the same as a family: by its name, or
    by operator graph for composed problems."""
    if family.startswith(KERNELBENCH):
        return (f"KernelBench/{family.removeprefix(KERNELBENCH)}",)
    return _by_family().get(family, ())


def grams(text: bytes) -> Grams:
    """All n-grams of `NGRAM` tokens."""
    tokens = _TOKEN.findall(text)
    return frozenset(b" ".join(tokens[i : i + NGRAM]) for i in range(len(tokens) - NGRAM + 1))


def read(path: Path) -> Reference:
    """A set from a folder or file.

    Raises:
        InputError: no such path, or it has nothing to compare. RecordError: a file whose rows cannot be read.
    """
    if not (path.is_dir() or path.is_file()):
        raise InputError(
            "no such evaluation set", where=str(path), hint="a folder, .json, .jsonl or .parquet file"
        )
    texts: dict[str, set[bytes]] = defaultdict(set)
    for name, text in _texts(path):
        texts[name] |= grams(text)
    items = {name: frozenset(hashes) for name, hashes in texts.items() if hashes}
    if not items:
        raise InputError(
            "nothing to compare with", where=str(path), hint="source files, .json, .jsonl or .parquet"
        )
    index: dict[bytes, list[str]] = defaultdict(list)
    for name, hashes in items.items():
        for gram in hashes:
            index[gram].append(name)
    return Reference(path.stem if path.is_file() else path.resolve().name, items, index)


def _texts(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            name = file.relative_to(path)
            hidden = any(part.startswith(".") for part in name.parts)
            if file.is_file() and not hidden and file.suffix in _SOURCES | _ROWS:
                yield from ((f"{name.as_posix()}{row}", text) for row, text in _file(file))
    else:
        yield from ((f"{path.name}{row}", text) for row, text in _file(path))


def _file(file: Path) -> Iterator[tuple[str, bytes]]:
    """The items of one file: a suffix that distinguishes them, and their text."""
    if file.suffix == ".jsonl":
        lines = enumerate(file.read_bytes().splitlines(), 1)
        yield from _rows(
            codec.parse(line, where=f"{file}:{number}", lone_surrogates=True)
            for number, line in lines
            if line.strip()
        )
    elif file.suffix == ".json":
        rows = codec.parse(file.read_bytes(), where=str(file), lone_surrogates=True)
        yield from _rows(rows if isinstance(rows, list) else ())
    elif file.suffix == ".parquet":
        yield from _rows(_parquet_rows(file))
    elif file.stat().st_size <= _LIST_LIMIT_BYTES:
        yield from (("", text) for text in _plain(file.read_bytes()))


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
        for text in (value.encode("utf-8", "replace") for value in values if isinstance(value, str)):
            yield from ((f"#{number}", part) for part in _plain(text))


def _plain(text: bytes) -> Iterator[bytes]:
    """The text without comments: read as CUDA (also in Python strings), and as Python if it uses Triton."""
    yield normalise(text)
    if b"triton" in text:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            yield bare_python(text.decode("utf-8", "replace")).encode()
