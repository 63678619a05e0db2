"""Device memory allocated in large slabs, which are divided here.

Allocations of the driver wait for those of other processes, and for contexts that are being opened: tens of
milliseconds each while several judges work. A slab ends where its mapping ends and its pieces are adjacent,
so all mapped memory around a side's buffers belongs to a known piece. Freed memory is kept for the next
buffer; `unused` lists it, so that all of it can be cleared. Not covered: clearing it (`device`).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable

from kcurate.backends.base import KernelFault

# The first slab; later ones are as large as all before them together, up to a limit.
FIRST_SLAB_BYTES, LARGEST_SLAB_BYTES = 64 << 20, 1 << 30
ALIGNMENT = 512
# The driver maps device memory in multiples of this (cuMemGetAllocationGranularity on an H200 and an H100).
MAPPED_BYTES = 2 << 20


class Slabs:
    """Divides slabs into pieces, first fit.

    `allocate(bytes) -> address` and `release(address)` are for slabs.
    """

    def __init__(self, allocate: Callable[[int], int], release: Callable[[int], None]) -> None:
        self._allocate, self._release = allocate, release
        # Disjoint free pieces by address: (start, end). Those of one slab do not touch.
        self._pieces: list[tuple[int, int]] = []
        # The size of each slab, by address.
        self._slabs: dict[int, int] = {}

    @property
    def total_bytes(self) -> int:
        """The size of all slabs together."""
        return sum(self._slabs.values())

    @property
    def unused(self) -> tuple[tuple[int, int], ...]:
        """(address, size) of every free piece."""
        return tuple((start, end - start) for start, end in self._pieces)

    def take(self, size_bytes: int) -> int:
        """The address of a piece of at least this size.

        Raises:
            KernelFault: there is no memory left.
        """
        size = rounded(size_bytes)
        for at, (start, end) in enumerate(self._pieces):
            if end - start >= size:
                self._pieces[at : at + 1] = [(start + size, end)] if end - start > size else []
                return start
        slab = max(mapped(size), min(LARGEST_SLAB_BYTES, max(FIRST_SLAB_BYTES, self.total_bytes)))
        try:
            start = self._allocate(slab)
        except KernelFault:  # out of memory: return unused slabs, and ask for no more than needed
            self.shrink()
            slab = mapped(size)
            start = self._allocate(slab)
        self._slabs[start] = slab
        if slab > size:
            self.give_back(start + size, slab - size)
        return start

    def give_back(self, address: int, size_bytes: int) -> None:
        """Take a piece back."""
        start, end = address, address + rounded(size_bytes)
        at = bisect.bisect(self._pieces, (start, end))
        if at < len(self._pieces) and self._pieces[at][0] == end and end not in self._slabs:
            end = self._pieces.pop(at)[1]
        if at and self._pieces[at - 1][1] == start and start not in self._slabs:
            at -= 1
            start = self._pieces.pop(at)[0]
        self._pieces.insert(at, (start, end))

    def shrink(self) -> None:
        """Release the slabs that are entirely free."""
        for start, end in list(self._pieces):
            if self._slabs.get(start) == end - start:
                self._pieces.remove((start, end))
                del self._slabs[start]
                self._release(start)


def rounded(size_bytes: int) -> int:
    """The size of a piece for this many bytes."""
    return -(-max(1, size_bytes) // ALIGNMENT) * ALIGNMENT


def mapped(size_bytes: int) -> int:
    """The size of a mapping for this many bytes."""
    return -(-max(1, size_bytes) // MAPPED_BYTES) * MAPPED_BYTES
