"""Pairs that say the same twice: exact, near (MinHash), or the same machine code on both sides.

A pair is a duplicate only when both its sides are those of another pair: rungs of a ladder share one side
and stay. Near duplicates are found by MinHash over shingles of normalised tokens (library: datasketch) and
confirmed by the exact Jaccard similarity. Not covered: which of two pairs is kept (the one that comes first).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcurate import store
from kcurate.cuda_source import normalised_tokens

SHINGLE = 5
PERMUTATIONS = 128
# Candidates are looked up below the limit, so that MinHash's error (0.09 at 128 permutations) loses none.
LOOKUP_MARGIN = 0.15
NEAR = 0.95
# Two pairs with this much in common lie in one split, so that the test split holds nothing half known.
RELATED = 0.8

Shingles = frozenset[bytes]


def shingles(row: Mapping[str, Any], side: str) -> Shingles:
    """Runs of `SHINGLE` normalised tokens of one side's code and of its plan."""
    found: set[bytes] = set()
    for kind in ("code", "side"):
        tokens = normalised_tokens(row[f"{side}_{kind}"].encode())
        last = max(1, len(tokens) - SHINGLE + 1)
        found |= {f"{kind} ".encode() + b" ".join(tokens[i : i + SHINGLE]) for i in range(last)}
    return frozenset(found)


def similarity(one: Shingles, other: Shingles) -> float:
    """The Jaccard similarity, 0 to 1."""
    return len(one & other) / len(one | other) if one or other else 1.0


def exact_key(row: Mapping[str, Any]) -> str:
    """The hash of the tokens and plans of both sides, and of the problem."""
    codes = [b" ".join(normalised_tokens(row[f"{side}_code"].encode())) for side in ("slow", "fast")]
    return store.content_id(*codes, row["slow_side"], row["fast_side"], row["problem"] or "")


def binary_key(row: Mapping[str, Any]) -> str | None:
    """The hash of both sides' GPU code with their plans and problem; None where it is not known.

    The emulator's machine code does not count: what sets GPU code apart is often nothing to a host compiler.
    """
    binaries = (row["slow_binary_sha256"], row["fast_binary_sha256"])
    if row["backend"] != "cuda" or not all(binaries):
        return None
    return store.content_id(*binaries, row["slow_side"], row["fast_side"], row["problem"] or "")


class Seen:
    """The pairs that were let through so far; `find` says which of them a new one repeats."""

    def __init__(self, near: float = NEAR) -> None:
        from datasketch import MinHashLSH

        self._near = near
        self._exact: dict[str, str] = {}
        self._sides: dict[str, tuple[Shingles, Shingles]] = {}
        lookup = max(0.1, min(near, RELATED) - LOOKUP_MARGIN)
        self._lsh: Any = MinHashLSH(threshold=lookup, num_perm=PERMUTATIONS)

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
        for name, found in zip(("slow", "fast"), sides, strict=True):
            self._lsh.insert((row["id"], name), _minhash(found))
        return related

    def _alike(self, new: tuple[Shingles, Shingles]) -> Sequence[tuple[str, tuple[float, float]]]:
        """Pairs with a side like one of these, most alike first, with the similarity of slow and of fast."""
        ids = {key[0] for found in new for key in self._lsh.query(_minhash(found))}
        alike = [
            (other, (similarity(new[0], slow), similarity(new[1], fast)))
            for other in ids
            for slow, fast in (self._sides[other],)
        ]
        return sorted(alike, key=lambda found: (-min(found[1]), found[0]))


def _keys(row: Mapping[str, Any]) -> dict[str, str]:
    binary = binary_key(row)
    return {"the same tokens": exact_key(row), **({"the same machine code": binary} if binary else {})}


def _sides(row: Mapping[str, Any]) -> tuple[Shingles, Shingles]:
    return shingles(row, "slow"), shingles(row, "fast")


def _minhash(found: Shingles) -> Any:
    from datasketch import MinHash

    sketch = MinHash(num_perm=PERMUTATIONS, seed=1)
    sketch.update_batch(sorted(found))
    return sketch
