"""References of the cryptography and compression pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
Sizes = Mapping[str, int]
Scalars = Mapping[str, float]


def _quarter_round(s: Array, a: int, b: int, c: int, d: int) -> None:
    for first, second, third, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[first] += s[second]
        mixed = s[third] ^ s[first]
        s[third] = mixed << np.uint32(turn) | mixed >> np.uint32(32 - turn)


def chacha20(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """RFC 8439 with the block counter from 1."""
    blocks = -(-sizes["n"] // 64)
    words = np.zeros((16, blocks), np.uint32)
    words[:4] = np.frombuffer(b"expand 32-byte k", "<u4")[:, None]
    words[4:12] = arrays["key"].view("<u4")[:, None]
    words[12] = np.arange(1, blocks + 1)
    words[13:] = arrays["nonce"].view("<u4")[:, None]
    state = words.copy()
    for _ in range(10):
        for turn in range(2):
            for i in range(4):
                _quarter_round(state, i, *(4 * row + (i + row * turn) % 4 for row in (1, 2, 3)))
    stream = np.ascontiguousarray((state + words).T).view(np.uint8).reshape(-1)
    return {"cipher": (arrays["plain"] ^ stream[: sizes["n"]]).astype(np.int64)}


def sha256(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The digest of each message."""
    digests = [hashlib.sha256(message.tobytes()).digest() for message in arrays["messages"]]
    return {"digests": np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32).astype(np.int64)}


ORACLES = {"chacha20": chacha20, "sha256": sha256}
