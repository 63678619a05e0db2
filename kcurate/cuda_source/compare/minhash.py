"""MinHash over shingles of normalised tokens: candidates for near duplicates among very many files.

Not covered: which of two near duplicates is kept (`kcurate.dataset.gates`, `kcurate.extract.copies`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import shake_128
from zlib import crc32

import numpy as np
import numpy.typing as npt

SHINGLE = 5
PERMUTATIONS = 128
# Hashes permuted at once: 256 x 128 values of 8 bytes (256 KiB) stay in a processor's cache.
TOGETHER = 256
# LSH may miss at most this share of the pairs that are exactly at the similarity limit.
MISSED = 1e-6

Hashes = npt.NDArray[np.uint64]


def shingles(tokens: Sequence[bytes]) -> Hashes:
    """The hash of each run of `SHINGLE` tokens: (len(tokens) - SHINGLE + 1,), at least one."""
    numbers = np.zeros(max(SHINGLE, len(tokens)), np.uint64)
    numbers[: len(tokens)] = np.fromiter(map(crc32, tokens), np.uint64, len(tokens))
    mixed: Hashes = np.zeros(len(numbers) - SHINGLE + 1, np.uint64)
    for at, factor in enumerate(_constants(b"shingles", SHINGLE)):
        mixed += numbers[at : at + len(mixed)] * factor
    return mixed ^ mixed >> np.uint64(29)


def signature(hashes: Hashes) -> Hashes:
    """The MinHash signature of a set of hashes: (PERMUTATIONS,), values below 2**32."""
    factors, shifts = _constants(b"permutations", 2 * PERMUTATIONS).reshape(2, PERMUTATIONS)
    least = np.full(PERMUTATIONS, np.iinfo(np.uint64).max)
    for at in range(0, len(hashes), TOGETHER):
        permuted = hashes[at : at + TOGETHER, None] * factors
        permuted += shifts
        np.minimum(least, permuted.min(axis=0), out=least)
    return least >> np.uint64(32)


@cache
def _constants(seed: bytes, count: int) -> Hashes:
    """Fixed pseudo-random odd 64-bit numbers; arithmetic with them is modulo 2**64."""
    return np.frombuffer(shake_128(seed).digest(8 * count), np.uint64) | np.uint64(1)


def rows_of_a_band(limit: float) -> int:
    """The rows of an LSH band for which sets with Jaccard similarity `limit` or more still collide."""
    fits = (n for n in range(PERMUTATIONS, 1, -1) if (1 - limit**n) ** (PERMUTATIONS // n) < MISSED)
    return next(fits, 1)


def similarity(first: Hashes, second: Hashes) -> float:
    """The Jaccard similarity of two sets of hashes, 0 to 1."""
    shared = len(np.intersect1d(first, second, assume_unique=True))
    return shared / (len(first) + len(second) - shared)
