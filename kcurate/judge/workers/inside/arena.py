"""One allocation in which a side's buffers lie at places that it cannot know, in memory that holds noise.

Every run gets new places. `renew` fills all of it with new noise, so that nothing an earlier run left can be
found again; `damage` finds what a run wrote between its buffers, or into our own memory beside them. Not
covered: what lies in the buffers (`kcurate.judge.workers.inside.input_sets`).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from kcurate.backends.base import Memory
from kcurate.backends.cuda.arrays import DeviceArrays
from kcurate.backends.cuda.timer import GpuTimer
from kcurate.backends.noise import Held
from kcurate.judge.workers.inside.execute import ALIGNMENT, REDZONE_BYTES, SHIFTS

# Room for gaps: this part of the buffers' size, at least and at most so many bytes.
GAP_SHARE = 4
LEAST_GAP_BYTES, MOST_GAP_BYTES = 32 << 20, 1 << 30
SALT_BITS = 64


class OwnMemory:
    """Our own memory within reach of a side's code, such as copies of inputs; it must stay as it is."""

    def __init__(self, arrays: DeviceArrays) -> None:
        self._arrays = arrays
        # By address: the memory, the salt of its checksum, the checksum.
        self._held: dict[int, tuple[Memory, int, int]] = {}

    def add(self, memory: Memory) -> None:
        """From now on `memory` must hold what it holds."""
        salt = secrets.randbits(SALT_BITS)
        total = self._arrays.sum_of(lambda word: self._add(memory, salt, word))
        self._held[memory.address] = (memory, salt, total)

    def drop(self, memory: Memory) -> None:
        """Forget memory that will be freed."""
        self._held.pop(memory.address, None)

    def changed(self) -> bool:
        """Whether any of it holds something else; waits for the device."""

        def add(word: int) -> None:
            for memory, salt, _ in self._held.values():
                self._add(memory, salt, word)

        expected = sum(total for _, _, total in self._held.values())
        return self._arrays.sum_of(add) != expected % (1 << 64)

    def _add(self, memory: Memory, salt: int, word: int) -> None:
        self._arrays.checksum(memory, 0, memory.size_bytes, salt, word)


class Arena:
    """Memory for the buffers of one run at a time; grows on demand. It makes noise for `DeviceProgram`.

    `own`: our own memory beside it.
    """

    def __init__(self, timer: GpuTimer) -> None:
        self._timer = timer
        self.own = OwnMemory(timer)
        self._memory: Memory | None = None
        self.salt = 0

    def reserve(self, buffer_bytes: int, buffers: int) -> None:
        """Make room for `buffers` buffers of together `buffer_bytes` (with their pads)."""
        around = 2 * REDZONE_BYTES + (2 * SHIFTS + 2) * ALIGNMENT
        wanted = buffer_bytes + buffers * around
        wanted += min(MOST_GAP_BYTES, max(LEAST_GAP_BYTES, wanted // GAP_SHARE))
        if self._memory is None or self._memory.size_bytes < wanted:
            self.close()
            self._memory = self._timer.device.allocate(wanted)

    def place(self, sizes: Sequence[int]) -> list[Memory]:
        """Memory of each size, in random order with random gaps. Earlier memory is given up."""
        assert self._memory is not None, "room is reserved first"
        rounded = [-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]
        slack = (self._memory.size_bytes - sum(rounded)) // ALIGNMENT
        assert slack >= 0, "more buffers than were announced"
        cuts = sorted(secrets.randbelow(slack + 1) for _ in sizes)
        order = list(range(len(sizes)))
        secrets.SystemRandom().shuffle(order)
        pieces: dict[int, Memory] = {}
        used = 0
        for at, cut in zip(order, cuts, strict=True):
            pieces[at] = Memory(self._memory.address + cut * ALIGNMENT + used, sizes[at])
            used += rounded[at]
        return [pieces[at] for at in range(len(sizes))]

    def renew(self) -> None:
        """Fill the whole arena with new noise, and clear memory of ours that holds nothing."""
        assert self._memory is not None, "room is reserved first"
        self._timer.clear()
        self.salt = secrets.randbits(SALT_BITS)
        self._timer.noise(self._memory, 0, self._memory.size_bytes, self.salt)

    def noise(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> None:
        """See `Noise`; nothing to do where `renew` has just made it."""
        if salt != self.salt:
            self._timer.noise(memory, offset, size_bytes, salt)

    def changed(self, ranges: Sequence[Held]) -> list[bool]:
        """See `Noise`."""
        return self._timer.changed(ranges)

    def damage(self, pieces: Sequence[Memory]) -> tuple[str, ...]:
        """What a run wrote outside the pieces where its buffers lie; waits for the device."""
        assert self._memory is not None, "room is reserved first"
        end = self._memory.address + self._memory.size_bytes
        places = [(piece.address, piece.address + piece.size_bytes) for piece in pieces]
        starts = [self._memory.address, *(after for _, after in sorted(places))]
        ends = [*(before for before, _ in sorted(places)), end]
        gaps = [
            Held(self._memory, start - self._memory.address, stop - start, self.salt)
            for start, stop in zip(starts, ends, strict=True)
        ]
        damaged = any(self._timer.changed(gaps)) or self.own.changed()
        return ("wrote outside its buffers",) if damaged else ()

    def close(self) -> None:
        """Free the memory."""
        if self._memory is not None:
            self._timer.device.free(self._memory)
            self._memory = None
