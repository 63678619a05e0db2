"""Which pieces of code hold a function of which others, whatever the names are.

A function counts as held if most of its runs of `RUN` tokens occur in the other file. Within a run, names are
numbered by first occurrence: renaming changes nothing. Functions shorter than `MIN_TOKENS` are too
common to tell anything; a file of such functions counts only where it equals another whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import shake_128
from zlib import crc32

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from kcurate.cuda_source.compare.similarity import is_name
from kcurate.cuda_source.parse.items import parse
from kcurate.cuda_source.parse.syntax_tree import Tree
from kcurate.cuda_source.text.tokens import COMPARED

RUN = 8
MIN_TOKENS = 60
# The share of a function's runs from which it counts as held by another file.
HELD = 0.8

_Runs = npt.NDArray[np.uint64]
_FACTORS = np.frombuffer(shake_128(b"containment").digest(8 * RUN), np.uint64) | np.uint64(1)


@dataclass(frozen=True)
class Held:
    """A function of one file that another holds: its name and tokens, the files' numbers, the share found."""

    function: str
    tokens: int
    of: int
    by: int
    share: float


@lru_cache(maxsize=4096)
def _read(code: str) -> tuple[_Runs, tuple[tuple[str, int, _Runs], ...]]:
    """The runs of a file, and of each of its longer functions."""
    parsed = parse(code.encode("utf-8", "replace"))
    matches = list(COMPARED.finditer(parsed.text))
    tokens, starts = [match[0] for match in matches], [match.start() for match in matches]
    numbers = np.fromiter(map(crc32, tokens), np.uint64, len(tokens))
    names = np.fromiter((is_name(tokens, at) for at in range(len(tokens))), bool, len(tokens))
    functions = []
    for function in Tree(parsed.text, parsed.tree.root_node).functions():
        span = function.node.start_byte, function.node.end_byte
        first, end = (bisect_left(starts, at) for at in span)
        if end - first >= MIN_TOKENS:
            functions.append(
                (function.name.decode(), end - first, _runs(numbers[first:end], names[first:end]))
            )
    return _runs(numbers, names), tuple(functions)


def _runs(numbers: _Runs, names: npt.NDArray[np.bool_]) -> _Runs:
    """The hashes of all runs of tokens, sorted, each once, from the tokens' numbers and which are names."""
    padding = max(0, RUN - len(numbers))
    windows = sliding_window_view(np.pad(numbers, (0, padding)), RUN)
    named = sliding_window_view(np.pad(names, (0, padding)), RUN)
    first = (windows[:, :, None] == windows[:, None, :]).argmax(axis=2).astype(np.uint64)
    mixed = (np.where(named, first, windows + np.uint64(RUN)) * _FACTORS).sum(axis=1)
    return np.unique(mixed ^ mixed >> np.uint64(29))


def held(codes: Sequence[str]) -> Iterator[Held]:
    """Every function of one code that another holds, itself left out; equal codes hold each other whole."""
    files = [_read(code) for code in codes]
    owners = np.repeat(np.arange(len(files)), [len(runs) for runs, _ in files])
    runs = np.concatenate([runs for runs, _ in files]) if files else np.empty(0, np.uint64)
    order = np.argsort(runs, kind="stable")
    runs, owners = runs[order], owners[order]
    for number, (whole, functions) in enumerate(files):
        for name, tokens, wanted in functions or (("", len(whole), whole),):
            shared = _counts(wanted, runs, owners, len(files)) / max(1, len(wanted))
            for by in np.flatnonzero(shared >= HELD):
                equal = np.array_equal(files[by][0], whole)
                if by != number and (functions or (equal and codes[number].strip())):
                    yield Held(name, tokens, number, int(by), float(shared[by]))


def _counts(wanted: _Runs, runs: _Runs, owners: npt.NDArray[np.int64], files: int) -> npt.NDArray[np.int64]:
    """How many of the wanted runs each file has."""
    starts = np.searchsorted(runs, wanted, "left")
    lengths = np.searchsorted(runs, wanted, "right") - starts
    before = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    places = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
    return np.bincount(owners[places], minlength=files)
