"""Which files contain a function of which others, regardless of names.

A function is contained in a file if most of its runs of `RUN` tokens occur there. Within a run, names are
numbered by first occurrence, so renaming changes nothing. Functions shorter than `MIN_TOKENS` are too common
to compare; a file that has only such functions counts only if it equals another as a whole.
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
# A function is contained in a file that has at least this share of its runs.
HELD = 0.8

_Runs = npt.NDArray[np.uint64]
_FACTORS = np.frombuffer(shake_128(b"containment").digest(8 * RUN), np.uint64) | np.uint64(1)


@dataclass(frozen=True)
class Held:
    """A function of file number `of` that file number `by` contains.

    `tokens` is its length in tokens; `share` is the share of its runs that `by` has, 0 to 1.
    """

    function: str
    tokens: int
    of: int
    by: int
    share: float


@lru_cache(maxsize=4096)
def _read(code: str) -> tuple[_Runs, tuple[tuple[str, int, _Runs], ...]]:
    """The run hashes of a file; and the name, token count and run hashes of each long enough function."""
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
    """The hashes of all runs of `RUN` tokens, sorted, without repetitions.

    `numbers` has a hash for each token, `names` is True where the token is a name.
    """
    padding = max(0, RUN - len(numbers))
    windows = sliding_window_view(np.pad(numbers, (0, padding)), RUN)
    named = sliding_window_view(np.pad(names, (0, padding)), RUN)
    first = (windows[:, :, None] == windows[:, None, :]).argmax(axis=2).astype(np.uint64)
    mixed = (np.where(named, first, windows + np.uint64(RUN)) * _FACTORS).sum(axis=1)
    return np.unique(mixed ^ mixed >> np.uint64(29))


def held(codes: Sequence[str]) -> Iterator[Held]:
    """Every function of one code that another code contains.

    Two equal codes without long enough functions contain each other as a whole.
    """
    files = [_read(code) for code in codes]
    index = _Index([runs for runs, _ in files])
    for number, (file_runs, functions) in enumerate(files):
        for name, tokens, runs_of_function in functions or (("", len(file_runs), file_runs),):
            shared = index.shares(runs_of_function)
            for by in np.flatnonzero(shared >= HELD):
                equal = np.array_equal(files[by][0], file_runs)
                if by != number and (functions or (equal and codes[number].strip())):
                    yield Held(name, tokens, number, int(by), float(shared[by]))


def standing_in(
    codes: Sequence[str], others: Sequence[str], *, within_runs: bool = False
) -> Iterator[tuple[int, int, float]]:
    """Each of `codes` of which at least `HELD` occurs in one of `others`: (its number, the other's, share).

    Names are numbered by first use in the whole code, so that one additional name separates two codes. With
    `within_runs` they are numbered in each run of tokens, as in `held`: then nearly all code made from one
    template is alike.
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
    """A hash for each token, and whether it is a name; both have the length of `tokens`."""
    numbers = np.fromiter(map(crc32, tokens), np.uint64, len(tokens))
    return numbers, np.fromiter((is_name(tokens, at) for at in range(len(tokens))), bool, len(tokens))


class _Index:
    """An index from run hashes to the files that have them."""

    def __init__(self, files: Sequence[_Runs]) -> None:
        self._files = len(files)
        runs = np.concatenate(files) if files else np.empty(0, np.uint64)
        order = np.argsort(runs, kind="stable")
        self._runs = runs[order]
        self._owners = np.repeat(np.arange(len(files)), [len(file) for file in files])[order]

    def shares(self, wanted: _Runs) -> npt.NDArray[np.float64]:
        """The share of the `wanted` runs that each file has: (number of files,), 0 to 1."""
        starts = np.searchsorted(self._runs, wanted, "left")
        lengths = np.searchsorted(self._runs, wanted, "right") - starts
        before = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        entries = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
        return np.bincount(self._owners[entries], minlength=self._files) / max(1, len(wanted))
