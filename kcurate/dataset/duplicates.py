"""Near-duplicate removal: equal tokens, similar tokens (MinHash), or equal machine code on both sides.

A pair is a duplicate only if both of its sides match those of another pair; the pairs of a ladder (one kernel
in several stages of optimisation) share one side and are kept. MinHash over shingles of normalised tokens
finds candidates, and the exact Jaccard similarity decides. Not covered: the order of the pairs, of which the
first is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kcurate.core import store
from kcurate.cuda_source import normalised_tokens
from kcurate.cuda_source.compare.minhash import (
    PERMUTATIONS,
    Hashes,
    rows_of_a_band,
    shingles,
    signature,
    similarity,
)
from kcurate.dataset.settings import NEAR

# This bit is set in hashes of code and clear in hashes of plans.
_CODE = np.uint64(1)


@dataclass(frozen=True)
class Sketch:
    """A side: the hash of its tokens, the sorted hashes of its shingles, and its MinHash signature."""

    tokens: str
    shingles: Hashes
    least: Hashes


@lru_cache(maxsize=256)  # pairs of a ladder share a side, and a row is looked up before it is added
def sketch(code: str, plan: str) -> Sketch:
    """The sketch of a side: shingles of `SHINGLE` normalised tokens of its code and plan."""
    tokens = normalised_tokens(code.encode())
    of_plan = shingles(normalised_tokens(plan.encode()))
    hashes = np.unique(np.concatenate([shingles(tokens) | _CODE, of_plan & ~_CODE]))
    return Sketch(store.content_id(b" ".join(tokens)), hashes, signature(hashes))


class Seen:
    """The pairs accepted so far; `find` says which of them a new pair duplicates."""

    def __init__(self, near: float = NEAR) -> None:
        self._near = near
        self._exact: dict[str, str] = {}
        self._sides: dict[str, tuple[Sketch, Sketch]] = {}
        self._rows = rows_of_a_band(near)
        self._bands: dict[tuple[int, bytes], list[str]] = {}

    def find(self, row: Mapping[str, Any]) -> str | None:
        """What the row duplicates, in words; None if nothing."""
        for shared, key in _keys(row).items():
            if key in self._exact:
                return f"{shared} as {self._exact[key]}"
        for other, (slow, fast) in self._alike(_sides(row)):
            if min(slow, fast) >= self._near:
                return f"at least {min(slow, fast):.0%} of the tokens of both sides of {other}"
        return None

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row that is kept."""
        sides = _sides(row)
        self._exact |= dict.fromkeys(_keys(row).values(), row["id"])
        self._sides[row["id"]] = sides
        for band in self._bands_of(sides):
            self._bands.setdefault(band, []).append(row["id"])

    def _bands_of(self, sides: tuple[Sketch, Sketch]) -> set[tuple[int, bytes]]:
        size = self._rows
        return {
            (start, side_sketch.least[start : start + size].tobytes())
            for side_sketch in sides
            for start in range(0, PERMUTATIONS - size + 1, size)
        }

    def _alike(self, new: tuple[Sketch, Sketch]) -> Sequence[tuple[str, tuple[float, float]]]:
        """Pairs with a side similar to one of these, most similar first: id, similarity of slow and fast."""
        ids = {other for band in self._bands_of(new) for other in self._bands.get(band, ())}
        slow, fast = (side_sketch.shingles for side_sketch in new)
        alike = [
            (other, (similarity(slow, sides[0].shingles), similarity(fast, sides[1].shingles)))
            for other in ids
            for sides in (self._sides[other],)
        ]
        return sorted(alike, key=lambda match: (-min(match[1]), match[0]))


def _keys(row: Mapping[str, Any]) -> dict[str, str]:
    """Hashes that make two rows duplicates if equal, by a description of what is compared."""
    launches = (row["slow_side"], row["fast_side"], row["problem"] or "")
    keys = {"the same tokens": store.content_id(*(side.tokens for side in _sides(row)), *launches)}
    # Not the emulator's machine code: host compilers remove many differences that matter on a GPU.
    binaries = (row["slow_binary_sha256"], row["fast_binary_sha256"])
    if row["backend"] == "cuda" and all(binaries):
        keys["the same machine code"] = store.content_id(*binaries, *launches)
    return keys


def _sides(row: Mapping[str, Any]) -> tuple[Sketch, Sketch]:
    return sketch(row["slow_code"], row["slow_side"]), sketch(row["fast_code"], row["fast_side"])
