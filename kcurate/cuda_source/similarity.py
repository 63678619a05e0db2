"""How alike two pieces of device code are, whatever their variables are called."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from kcurate.cuda_source.normalise import normalised_tokens

# Tokens in a row that are compared as one.
SHINGLE = 5
# From this share of common shingles on, two variants teach the same.
NEARLY_THE_SAME = 0.95
_WORD = re.compile(rb"[A-Za-z_]\w*\Z")
# Words whose meaning is the language's: everything else that is no member and no call is a name.
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
    """A piece of code for comparison: its shingles with all names alike, and a hash with names told apart."""

    shingles: frozenset[bytes]
    exact: str

    def likeness(self, other: Fingerprint) -> float:
        """The share of shingles in common, 0 to 1 (Jaccard)."""
        union = self.shingles | other.shingles
        return len(self.shingles & other.shingles) / len(union) if union else 1.0


def fingerprint(code: str) -> Fingerprint:
    """What code is compared by; consistent renaming of variables does not change it."""
    alike: list[bytes] = []
    numbered: list[bytes] = []
    numbers: dict[bytes, bytes] = {}
    tokens = normalised_tokens(code.encode("utf-8", "replace"))
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else b""
        after = tokens[i + 1] if i + 1 < len(tokens) else b""
        if not _WORD.match(token) or token in _KEPT or before == b"." or after == b"(":
            alike.append(token)
            numbered.append(token)
        else:
            alike.append(b"_")
            numbered.append(numbers.setdefault(token, b"_%d" % len(numbers)))
    shingles = frozenset(b" ".join(alike[i : i + SHINGLE]) for i in range(max(1, len(alike) - SHINGLE + 1)))
    return Fingerprint(shingles, hashlib.sha256(b" ".join(numbered)).hexdigest())
