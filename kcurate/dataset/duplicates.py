"""Pairs that say the same twice: exact, near (MinHash), or the same machine code on both sides.

A pair is a duplicate only when both its sides are those of another pair: rungs of a ladder share one side
and stay. Near duplicates are found by MinHash over shingles of normalised tokens and confirmed by the exact
Jaccard similarity. Not covered: which of two pairs is kept (the one that comes first).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import shake_128
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from kcurate import store
from kcurate.cuda_source import normalised_tokens

SHINGLE = 5
PERMUTATIONS = 128
NEAR = 0.95
# Two pairs with this much in common lie in one split, so that the test split holds nothing half known.
RELATED = 0.8
# Of the pairs that are exactly as much alike as asked for, MinHash overlooks fewer than this share.
OVERLOOKED = 1e-6
# Set in the hashes of code, not in those of a plan.
_CODE = np.uint64(1)

Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Sketch:
    """A side: the hash of its tokens, those of its shingles (sorted), the least under each permutation."""

    tokens: str
    shingles: Hashes
    least: Hashes


@lru_cache(maxsize=256)  # rungs of a ladder share a side, and a row is looked up before it is added
def sketch(code: str, plan: str) -> Sketch:
    """The sketch of runs of `SHINGLE` normalised tokens of a side's code and of its plan."""
    tokens = normalised_tokens(code.encode())
    of_plan = _shingles(normalised_tokens(plan.encode()))
    found = np.unique(np.concatenate([_shingles(tokens) | _CODE, of_plan & ~_CODE]))
    factors, shifts = _drawn(b"permutations", 2 * PERMUTATIONS).reshape(2, PERMUTATIONS)
    least = (found[:, None] * factors + shifts >> np.uint64(32)).min(axis=0)
    return Sketch(store.content_id(b" ".join(tokens)), found, least)


def _shingles(tokens: Sequence[bytes]) -> Hashes:
    numbers = np.fromiter(map(crc32, tokens), np.uint64, len(tokens))
    runs = sliding_window_view(np.pad(numbers, (0, max(0, SHINGLE - len(tokens)))), SHINGLE)
    mixed: Hashes = (runs * _drawn(b"shingles", SHINGLE)).sum(axis=1)
    return mixed ^ mixed >> np.uint64(29)


@cache
def _drawn(what: bytes, count: int) -> Hashes:
    """Odd numbers of 64 bits, always the same: arithmetic with them is modulo 2**64."""
    return np.frombuffer(shake_128(what).digest(8 * count), np.uint64) | np.uint64(1)


def rows_of_a_band(limit: float) -> int:
    """How many hashes must agree at once, so that sides with the similarity `limit` are still found."""
    fits = (n for n in range(PERMUTATIONS, 1, -1) if (1 - limit**n) ** (PERMUTATIONS // n) < OVERLOOKED)
    return next(fits, 1)


def similarity(one: Hashes, other: Hashes) -> float:
    """The Jaccard similarity of sorted hashes, 0 to 1."""
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)


class Seen:
    """The pairs that were let through so far; `find` says which of them a new one repeats."""

    def __init__(self, near: float = NEAR) -> None:
        self._near = near
        self._exact: dict[str, str] = {}
        self._sides: dict[str, tuple[Sketch, Sketch]] = {}
        self._rows = rows_of_a_band(min(near, RELATED))
        self._bands: dict[tuple[int, bytes], list[str]] = {}

    def find(self, row: Mapping[str, Any]) -> str | None:
        """What the row repeats, in words; None when it repeats nothing."""
        for what, key in _keys(row).items():
            if key in self._exact:
                return f"{what} as {self._exact[key]}"
        for other, (slow, fast) in self._alike(_sides(row)):
            if min(slow, fast) >= self._near:
                return f"at least {min(slow, fast):.0%} of the tokens of both sides of {other}"
        return None

    def add(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """Remember a row that stays; the ids of earlier ones of which either side is much like its own."""
        sides = _sides(row)
        related = tuple(other for other, alike in self._alike(sides) if max(alike) >= RELATED)
        self._exact |= dict.fromkeys(_keys(row).values(), row["id"])
        self._sides[row["id"]] = sides
        for band in self._bands_of(sides):
            self._bands.setdefault(band, []).append(row["id"])
        return related

    def _bands_of(self, sides: tuple[Sketch, Sketch]) -> set[tuple[int, bytes]]:
        size = self._rows
        return {
            (start, one.least[start : start + size].tobytes())
            for one in sides
            for start in range(0, PERMUTATIONS - size + 1, size)
        }

    def _alike(self, new: tuple[Sketch, Sketch]) -> Sequence[tuple[str, tuple[float, float]]]:
        """Pairs with a side like one of these, most alike first, with the similarity of slow and of fast."""
        ids = {other for band in self._bands_of(new) for other in self._bands.get(band, ())}
        slow, fast = (one.shingles for one in new)
        alike = [
            (other, (similarity(slow, sides[0].shingles), similarity(fast, sides[1].shingles)))
            for other in ids
            for sides in (self._sides[other],)
        ]
        return sorted(alike, key=lambda found: (-min(found[1]), found[0]))


def _keys(row: Mapping[str, Any]) -> dict[str, str]:
    """What makes two rows the same, in words, to a hash."""
    rest = (row["slow_side"], row["fast_side"], row["problem"] or "")
    keys = {"the same tokens": store.content_id(*(side.tokens for side in _sides(row)), *rest)}
    # Not the emulator's machine code: what sets GPU code apart is often nothing to a host compiler.
    binaries = (row["slow_binary_sha256"], row["fast_binary_sha256"])
    if row["backend"] == "cuda" and all(binaries):
        keys["the same machine code"] = store.content_id(*binaries, *rest)
    return keys


def _sides(row: Mapping[str, Any]) -> tuple[Sketch, Sketch]:
    return sketch(row["slow_code"], row["slow_side"]), sketch(row["fast_code"], row["fast_side"])
