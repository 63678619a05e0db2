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

from kcurate.cuda_source.compare.minhash import shingles
from kcurate.cuda_source.compare.similarity import is_name, numbered_tokens
from kcurate.cuda_source.parse.items import parse
from kcurate.cuda_source.parse.syntax_tree import Tree
from kcurate.cuda_source.text.normalise import normalised_tokens
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
    numbers, names = _numbers(tokens)
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
    index = _Index([runs for runs, _ in files])
    for number, (whole, functions) in enumerate(files):
        for name, tokens, wanted in functions or (("", len(whole), whole),):
            shared = index.shares(wanted)
            for by in np.flatnonzero(shared >= HELD):
                equal = np.array_equal(files[by][0], whole)
                if by != number and (functions or (equal and codes[number].strip())):
                    yield Held(name, tokens, number, int(by), float(shared[by]))


def standing_in(
    codes: Sequence[str], others: Sequence[str], *, within_runs: bool = False
) -> Iterator[tuple[int, int, float]]:
    """Each code of which at least `HELD` stands in another one: its number, the other's, the share.

    Names are numbered by their first use in the whole code, so that one name more keeps two codes apart;
    `within_runs`: in each run of tokens, as `held` does, which finds nearly all code of one template alike.
    """
    index = _Index([_shingles(code, within_runs) for code in others])
    for number, wanted in enumerate(_shingles(code, within_runs) for code in codes):
        if len(wanted) >= MIN_TOKENS:
            shared = index.shares(wanted)
            yield from ((number, int(by), float(shared[by])) for by in np.flatnonzero(shared >= HELD))


def _shingles(code: str, within_runs: bool) -> _Runs:
    if within_runs:
        return _runs(*_numbers(normalised_tokens(code.encode("utf-8", "replace"))))
    return np.unique(shingles(numbered_tokens(code)))


def _numbers(tokens: Sequence[bytes]) -> tuple[_Runs, npt.NDArray[np.bool_]]:
    """A number for each token, and which are names."""
    numbers = np.fromiter(map(crc32, tokens), np.uint64, len(tokens))
    return numbers, np.fromiter((is_name(tokens, at) for at in range(len(tokens))), bool, len(tokens))


class _Index:
    """Which of many files has a run of tokens."""

    def __init__(self, files: Sequence[_Runs]) -> None:
        self._files = len(files)
        runs = np.concatenate(files) if files else np.empty(0, np.uint64)
        order = np.argsort(runs, kind="stable")
        self._runs = runs[order]
        self._owners = np.repeat(np.arange(len(files)), [len(file) for file in files])[order]

    def shares(self, wanted: _Runs) -> npt.NDArray[np.float64]:
        """The share of the wanted runs that each file has, 0 to 1."""
        starts = np.searchsorted(self._runs, wanted, "left")
        lengths = np.searchsorted(self._runs, wanted, "right") - starts
        before = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        places = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
        return np.bincount(self._owners[places], minlength=self._files) / max(1, len(wanted))
