"""Memory contents that no candidate can predict, and comparisons of memory where it is.

On a GPU our helper kernels make and compare them (`kcurate.backends.cuda.timer`), elsewhere the host does.
The noise is made word by word, so that who reads some of it cannot tell the rest.
"""

from __future__ import annotations

import secrets
from typing import Protocol

import numpy as np

from kcurate.backends.base import Bytes, Device, Memory
from kcurate.problem.inputs.counter_based import mix


def noise_bytes(address: int, size_bytes: int, salt: int, key: int) -> Bytes:
    """The noise at an address: each byte depends on its address, `salt` and `key` (64 bits each)."""
    first = address // 8
    words = np.arange(first, (address + size_bytes + 7) // 8, dtype=np.uint64)
    made = mix(mix(words + np.uint64(salt)) ^ np.uint64(key)).view(np.uint8)
    return made[address - 8 * first :][:size_bytes]


class Noise(Protocol):
    """Contents that no candidate can predict, and comparisons where the memory is."""

    def noise(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> None:
        """Fill a range with noise."""

    def noise_changed(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> bool:
        """Whether a range no longer holds the noise of this salt."""

    def differs(self, one: Memory, at: int, other: Memory, other_at: int, size_bytes: int) -> bool:
        """Whether two ranges hold different bytes."""


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

    def noise_changed(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> bool:
        """Whether a range no longer holds the noise of this salt."""
        held = self._device.read(memory, offset, size_bytes)
        return not np.array_equal(held, self._bytes(memory, offset, size_bytes, salt))

    def differs(self, one: Memory, at: int, other: Memory, other_at: int, size_bytes: int) -> bool:
        """Whether two ranges hold different bytes."""
        first = self._device.read(one, at, size_bytes)
        return not np.array_equal(first, self._device.read(other, other_at, size_bytes))
