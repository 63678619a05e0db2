"""Memory contents that no candidate can predict, and comparisons in device memory.

On a GPU our helper kernels write and compare them (`kcurate.backends.cuda.arrays`), elsewhere the host does.
Each word of the noise is computed separately, so that reading some words does not reveal others.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kcurate.backends.base import Bytes, Device, Memory
from kcurate.problem.inputs.counter_based import mix


def noise_bytes(address: int, size_bytes: int, salt: int, key: int) -> Bytes:
    """The noise at an address: each byte depends on its address, `salt` and `key` (64 bits each)."""
    first = address // 8
    words = np.arange(first, (address + size_bytes + 7) // 8, dtype=np.uint64)
    noise = mix(mix(words + np.uint64(salt)) ^ np.uint64(key)).view(np.uint8)
    return noise[address - 8 * first :][:size_bytes]


@dataclass(frozen=True)
class Held:
    """A range of memory and its expected contents: the bytes of another memory, or the noise of a salt."""

    memory: Memory
    offset: int
    size_bytes: int
    what: Memory | int


class Noise(Protocol):
    """Writes contents that no candidate can predict, and finds out whether memory changed."""

    def noise(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> None:
        """Fill a range with noise."""

    def changed(self, ranges: Sequence[Held]) -> list[bool]:
        """For each range, whether its contents changed."""


class HostNoise:
    """`Noise` made on the host, for devices without our helper kernels."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._key = secrets.randbits(64)

    def _bytes(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> Bytes:
        return noise_bytes(memory.address + offset, size_bytes, salt, self._key)

    def noise(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> None:
        """Fill a range with noise."""
        self._device.write(memory, offset, self._bytes(memory, offset, size_bytes, salt))

    def changed(self, ranges: Sequence[Held]) -> list[bool]:
        """For each range, whether its contents changed."""
        return [self._changed(held) for held in ranges]

    def _changed(self, held: Held) -> bool:
        contents = self._device.read(held.memory, held.offset, held.size_bytes)
        if isinstance(held.what, Memory):
            return not np.array_equal(contents, self._device.read(held.what, 0, held.size_bytes))
        return not np.array_equal(contents, self._bytes(held.memory, held.offset, held.size_bytes, held.what))
