"""Similarity of two pieces of device code, independent of variable names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kcurate.cuda_source.text.normalise import normalised_tokens

# Number of consecutive tokens in a shingle.
SHINGLE = 5
# Jaccard similarity from which two variants count as near-duplicates.
NEARLY_THE_SAME = 0.95
_WORD = re.compile(rb"[A-Za-z_]\w*\Z")
_NUMBER = re.compile(rb"_\d+")
# Keywords and built-ins that keep their meaning; any other word that is not a member or a call is a name.
_KEPT = frozenset(
    b"""
    __global__ __device__ __shared__ __constant__ __restrict__ __forceinline__ __launch_bounds__ extern static
    const volatile inline template typename class struct union enum typedef using namespace void bool char
    short int long unsigned signed float double half size_t auto if else for while do switch case default
    break continue return goto sizeof true false threadIdx blockIdx blockDim gridDim warpSize pragma unroll
    define undef ifdef ifndef endif include operator this
    """.split()
)


@dataclass(frozen=True)
class Fingerprint:
    """Code prepared for comparison: shingles with all names made equal, and a hash that tells names apart."""

    shingles: frozenset[bytes]
    exact: str

    def likeness(self, other: Fingerprint) -> float:
        """Jaccard similarity of the shingles, 0 to 1."""
        union = self.shingles | other.shingles
        return len(self.shingles & other.shingles) / len(union) if union else 1.0


def is_name(tokens: Sequence[bytes], at: int) -> bool:
    """Whether token `at` is a name chosen by the author: no keyword, built-in, member or call."""
    token = tokens[at]
    if not _WORD.match(token) or token in _KEPT or (at and tokens[at - 1] == b"."):
        return False
    return at + 1 == len(tokens) or tokens[at + 1] != b"("


def numbered_tokens(code: str) -> list[bytes]:
    """The tokens of the code, the author's names replaced by numbers in the order of first use."""
    numbers: dict[bytes, bytes] = {}
    tokens = normalised_tokens(code.encode("utf-8", "replace"))
    return [
        numbers.setdefault(token, b"_%d" % len(numbers)) if is_name(tokens, at) else token
        for at, token in enumerate(tokens)
    ]


def fingerprint(code: str) -> Fingerprint:
    """The fingerprint of code; consistent renaming of variables does not change it."""
    numbered = numbered_tokens(code)
    alike = [b"_" if _NUMBER.fullmatch(token) else token for token in numbered]
    shingles = frozenset(b" ".join(alike[i : i + SHINGLE]) for i in range(max(1, len(alike) - SHINGLE + 1)))
    return Fingerprint(shingles, hashlib.sha256(b" ".join(numbered)).hexdigest())
