"""Allocations of the emulated device: host memory, each between inaccessible pages.

An allocation ends where the protected pages begin (up to its 256-byte alignment), so that overruns fault. In
the gap all bits are set (NaN, -1), so that reading it changes results. Not covered: what a fault means for a
candidate (`device`).
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from kcurate.backends.base import Bytes, Memory
from kcurate.errors import BackendError

ALIGNMENT = 256
PAGE = mmap.PAGESIZE
# Protected bytes on either side.
GUARD_BYTES = 4 << 20
ALL_SET = 0xFF
PROT_NONE, MAP_PRIVATE_ANONYMOUS_NORESERVE = 0, 0x02 | 0x20 | 0x4000
FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class Memories:
    """All allocations of one device."""

    def __init__(self) -> None:
        self._mapped: dict[int, tuple[Memory, int, int]] = {}
        self._extents: ctypes.Array[ctypes.c_ulong] | None = None

    @property
    def extents(self) -> ctypes.Array[ctypes.c_ulong]:
        """The address and bytes of each allocation, one after the other."""
        if self._extents is None:
            numbers = [
                n for memory, _, _ in self._mapped.values() for n in (memory.address, memory.size_bytes)
            ]
            self._extents = (ctypes.c_ulong * len(numbers))(*numbers)
        return self._extents

    def allocate(self, size_bytes: int) -> Memory:
        """Zeroed memory between guards, 256-byte aligned.

        Raises:
            BackendError: the machine is out of memory.
        """
        used = -(-max(1, size_bytes) // ALIGNMENT) * ALIGNMENT
        body = -(-used // PAGE) * PAGE
        total = body + 2 * GUARD_BYTES
        base = _libc.mmap(None, total, PROT_NONE, MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0)
        if base == FAILED:
            raise BackendError(f"no memory for {size_bytes} bytes", where="emulator")
        start = base + GUARD_BYTES
        if _libc.mprotect(start, body, mmap.PROT_READ | mmap.PROT_WRITE):
            raise BackendError(f"no memory for {size_bytes} bytes", where="emulator")
        memory = Memory(start + body - used, size_bytes)
        ctypes.memset(start, ALL_SET, body - used)
        ctypes.memset(memory.address + size_bytes, ALL_SET, used - size_bytes)
        self._mapped[memory.address] = (memory, base, total)
        self._extents = None
        return memory

    @contextmanager
    def read_only(self, memories: Sequence[Memory]) -> Iterator[None]:
        """A context in which writes to these allocations fault; partial allocations are left out."""
        mapped = [self._mapped.get(memory.address) for memory in memories]
        bodies = [
            (place[1] + GUARD_BYTES, place[2] - 2 * GUARD_BYTES)
            for memory, place in zip(memories, mapped, strict=True)
            if place is not None and place[0] == memory
        ]
        for start, size in bodies:
            _libc.mprotect(start, size, mmap.PROT_READ)
        try:
            yield
        finally:
            for start, size in bodies:
                _libc.mprotect(start, size, mmap.PROT_READ | mmap.PROT_WRITE)

    def free(self, memory: Memory) -> None:
        """Free memory; any later access to it faults."""
        _, base, total = self._mapped.pop(memory.address)
        self._extents = None
        _libc.munmap(base, total)

    def close(self) -> None:
        """Free everything."""
        for memory, _, _ in list(self._mapped.values()):
            self.free(memory)

    def describe(self, address: int) -> str | None:
        """Describe a faulting address relative to an adjacent allocation; None if there is none."""
        for memory, base, total in self._mapped.values():
            if base <= address < base + total:
                allocation = f"an allocation of {memory.size_bytes} bytes"
                if address < memory.address:
                    return f"{memory.address - address} bytes before {allocation}"
                past = address - memory.address - memory.size_bytes
                if past < 0:
                    return "in or beside an input, which it may not change, even for a while"
                return f"{past} bytes past the end of {allocation}"
        return None


def view(memory: Memory, offset_bytes: int, size_bytes: int) -> Bytes:
    """A range of an allocation as an array that shares its memory.

    Raises:
        BackendError: the range exceeds the allocation.
    """
    if offset_bytes < 0 or size_bytes < 0 or offset_bytes + size_bytes > memory.size_bytes:
        what = f"{offset_bytes} + {size_bytes} bytes exceed an allocation of {memory.size_bytes}"
        raise BackendError(what, where="emulator")
    if not size_bytes:
        return np.empty(0, np.uint8)
    raw = (ctypes.c_uint8 * size_bytes).from_address(memory.address + offset_bytes)
    return np.ctypeslib.as_array(raw)
