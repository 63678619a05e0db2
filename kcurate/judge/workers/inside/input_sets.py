"""One input set of a side at a bench size: its values on the device, and checks of what a run makes of them.

Not covered: which sets run when (`kcurate.judge.workers.inside.sampler`), where the buffers lie
(`kcurate.judge.workers.inside.arena`).
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kcurate.backends.base import Bytes, Memory, Module
from kcurate.backends.cuda.helpers import MAX_RANK
from kcurate.backends.cuda.timer import GpuTimer, Region
from kcurate.judge.workers.inside.arena import SALT_BITS, Arena
from kcurate.judge.workers.inside.execute import Array, Image, Prepared
from kcurate.judge.workers.messages import Close, CloseAnswer
from kcurate.problem.addresses import is_table
from kcurate.problem.layout import strides_of, to_physical
from kcurate.problem.program import Program

WORD_BYTES = 8
# The number of wrong elements, and the squares of all differences.
CLOSE_BYTES = 16


class InputSet:
    """A program's inputs, copied to the device once; every run starts from these copies."""

    def __init__(
        self, timer: GpuTimer, module: Module, program: Program, values: Mapping[str, Array], arena: Arena
    ) -> None:
        self._timer, self._module, self.program, self._arena = timer, module, program, arena
        self.images: dict[str, Array | Image] = {}
        for name, array in values.items():
            buffer = program.buffers[name]
            if is_table(buffer):
                self.images[name] = array
                continue
            copy = timer.device.allocate(buffer.size_bytes)
            physical = np.ascontiguousarray(to_physical(buffer, array)).reshape(-1)
            timer.device.write(copy, 0, physical.view(np.uint8))
            self.images[name] = Image(copy=copy)
        self._expected: list[tuple[Close, Memory, int]] = []
        sizes = [b.size_bytes + sum(b.pad) * b.itemsize for b in program.buffers.values()]
        arena.reserve(sum(sizes), len(sizes))

    def place(self) -> Prepared:
        """The program with its buffers at new places, which hold nothing yet."""
        device, arena = self._timer.device, self._arena
        return Prepared(device, self._module, self.program, self.images, arena, arena.place)

    def copies(self) -> list[Memory]:
        """Our own memory that belongs to the set."""
        images = [image.copy for image in self.images.values() if isinstance(image, Image)]
        return [*filter(None, images), *(memory for _, memory, _ in self._expected)]

    def expect(self, close: Close, data: Bytes) -> None:
        """Keep an expected output (the bytes of its logical array) on the device, hidden from the side."""
        salt = secrets.randbits(SALT_BITS)
        hidden = self._timer.hidden(data, salt)
        memory = self._timer.device.allocate(hidden.size)
        self._timer.device.write(memory, 0, hidden)
        self._expected.append((close, memory, salt))

    @property
    def close_bytes(self) -> int:
        """The size of `compare`'s results."""
        return CLOSE_BYTES * len(self._expected)

    def compare(self, prepared: Prepared, found: int) -> None:
        """Queue: compare outputs with what is expected; results from device address `found` on."""
        for i, (close, memory, salt) in enumerate(self._expected):
            region = region_of(prepared, close.name)
            self._timer.close(region, memory, close.bound, salt, found + CLOSE_BYTES * i)

    def close(self) -> None:
        """Free the copies."""
        for memory in self.copies():
            self._timer.device.free(memory)


def sum_of(timer: GpuTimer, add: Callable[[int], None]) -> int:
    """The sum that `add` queues into the word at a device address; waits for it."""
    timer.device.fill(timer.word, 0, WORD_BYTES, b"\0")
    add(timer.word.address)
    return int(timer.device.read(timer.word, 0, WORD_BYTES).view(np.uint64)[0])


def add_fingerprint(timer: GpuTimer, prepared: Prepared, names: Sequence[str], word: int, salt: int) -> None:
    """Queue: add the fingerprint of the named outputs to the word at a device address."""
    for i, name in enumerate(names):
        timer.fingerprint(region_of(prepared, name), salt + i, word)


def region_of(prepared: Prepared, name: str) -> Region:
    """Where an output lies after a run, and what of it counts."""
    slot = prepared.bound[name]
    buffer = prepared.slots[name].buffer
    tolerance = buffer.record.tolerance
    counted_by = None
    if tolerance is not None and tolerance.valid is not None:
        count = prepared.bound[tolerance.valid]
        kind = count.buffer.record.dtype
        counted_by = (count.memory.address + count.before, count.buffer.itemsize, not kind.startswith("u"))
    layout: tuple[int, ...] = ()
    if buffer.view is not None:
        base, strides = strides_of(buffer)
        rest = [0] * (MAX_RANK - len(strides))
        layout = (len(strides), base, *buffer.shape, *rest, *strides, *rest)
    return Region(
        slot.memory,
        slot.before,
        int(np.prod(buffer.shape, dtype=np.int64)),
        buffer.record.dtype,
        buffer.itemsize,
        layout,
        counted_by,
        tolerance is None or tolerance.order == "exact",
    )


def read_close(data: Bytes) -> tuple[CloseAnswer, ...]:
    """The answers of comparisons from their bytes."""
    return tuple(CloseAnswer(wrong, squares) for wrong, squares in struct.iter_unpack("<Qd", data.tobytes()))
