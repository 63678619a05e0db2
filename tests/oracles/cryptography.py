"""References of the cryptography and compression pairs."""

from __future__ import annotations

import base64
import hashlib
import zlib
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


def crc32(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The checksum of each chunk (polynomial 0x04C11DB7, reflected)."""
    return {"sums": np.array([zlib.crc32(chunk.tobytes()) for chunk in arrays["data"]], np.int64)}


def base64_encode(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """RFC 4648 with padding."""
    text = base64.b64encode(arrays["data"].tobytes())
    return {"text": np.frombuffer(text, np.uint8).astype(np.int64)}


def bit_pack(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The low `bits` of each value one after another, lowest bit first."""
    stream = (arrays["values"][:, None] >> np.arange(sizes["bits"], dtype=np.uint32) & 1).reshape(-1)
    padded = np.pad(stream, (0, -stream.size % 32)).reshape(-1, 32).astype(np.int64)
    return {"words": (padded << np.arange(32)).sum(axis=1)}


def hamming_match(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """The smallest distance times 2^20, plus the first index that has it."""
    queries, entries = (np.unpackbits(arrays[name].view(np.uint8), axis=1) for name in ("queries", "entries"))
    distance = (queries[:, None] != entries[None]).sum(axis=2)
    return {"nearest": (distance.min(axis=1) << 20) + distance.argmin(axis=1)}


def adler32(arrays: Arrays, sizes: Sizes, scalars: Scalars) -> dict[str, Array]:
    """Adler-32 of each chunk, as zlib gives it."""
    return {"sums": np.array([zlib.adler32(chunk.tobytes()) for chunk in arrays["data"]], np.int64)}


ORACLES = {
    "chacha20": chacha20,
    "sha256": sha256,
    "crc32": crc32,
    "base64-encode": base64_encode,
    "bit-pack": bit_pack,
    "hamming-match": hamming_match,
    "adler32": adler32,
}
