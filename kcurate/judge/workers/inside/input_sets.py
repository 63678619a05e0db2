"""One input set of a side at a bench size: its values on the device, and checks of the outputs of each run.

Expected outputs (the other side's, or an earlier run's) lie encrypted on the device: a candidate's kernels
can read all of its memory, and could copy them instead of computing. Our comparing kernel decrypts them. Not
covered: which sets run when (`kcurate.judge.workers.inside.sampler`), where the buffers lie
(`kcurate.judge.workers.inside.arena`).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kcurate.backends.base import Bytes, Memory, Module
from kcurate.backends.cuda.arrays import FLOAT_KINDS, DeviceArrays, Region
from kcurate.backends.cuda.helpers import MAX_RANK
from kcurate.backends.cuda.timer import GpuTimer
from kcurate.judge.workers.inside.arena import Arena
from kcurate.judge.workers.inside.execute import Array, DeviceProgram, Image
from kcurate.judge.workers.requests import Close, CloseAnswer, Place, Size
from kcurate.problem.addresses import is_table
from kcurate.problem.inputs.counter_based import Recipe
from kcurate.problem.inputs.spoiled import Spoiled
from kcurate.problem.layout import strides_of, to_physical
from kcurate.problem.ops import BoundBuffer, Program
from kcurate.problem.outputs import unordered

# A `CloseAnswer` as the comparing kernel writes it: 8 bytes a field.
ANSWER_FORMAT = "<QdQ"
ANSWER_BYTES = struct.calcsize(ANSWER_FORMAT)


@dataclass
class EncryptedCopy:
    """An output's elements in logical order, XORed with the keystream of `hiding` (salt, key).

    On the device, on the host, or both.
    """

    hiding: tuple[int, int]
    memory: Memory | None = None
    host: Bytes | None = None


Copies = Mapping[str, EncryptedCopy]


class InputSet:
    """A program's inputs, copied to the device once; every run starts from these copies.

    `inputs` and `spoiled`: see `contents.recipes`. `last`: the program after its last run. `encrypted`:
    copies of outputs, by name. `peek_ranges`: elements that a timed run may send.
    """

    def __init__(
        self,
        timer: GpuTimer,
        program: Program,
        inputs: Mapping[str, Array | Recipe],
        spoiled: Spoiled,
        arena: Arena,
    ) -> None:
        self._timer, self.program, self._arena = timer, program, arena
        self.images: dict[str, Array | Image] = {}
        for name, values in inputs.items():
            buffer = program.buffers[name]
            if is_table(buffer) and not isinstance(values, Recipe):
                self.images[name] = values
            else:
                copy = self._copied(name, buffer, values, spoiled)
                arena.own.add(copy)
                self.images[name] = Image(copy=copy)
        self.last: DeviceProgram | None = None
        self.encrypted: dict[str, EncryptedCopy] = {}
        self._watched: tuple[Close, ...] = ()
        self.peek_ranges: tuple[Place, ...] = ()
        sizes = [b.size_bytes + sum(b.pad) * b.itemsize for b in program.buffers.values()]
        arena.reserve(sum(sizes), len(sizes))

    def _copied(self, name: str, buffer: BoundBuffer, values: Array | Recipe, spoiled: Spoiled) -> Memory:
        """An input's values in the side's own layout."""
        timer, copy = self._timer, self._timer.device.allocate(buffer.size_bytes)
        if not isinstance(values, Recipe):
            spoiled_values = spoiled.apply(name, values, buffer.record.dtype)
            physical = np.ascontiguousarray(to_physical(buffer, spoiled_values)).reshape(-1)
            timer.device.write(copy, 0, physical.view(np.uint8))
            return copy
        region = _region(buffer, copy, 0)
        if region.layout:
            timer.device.fill(copy, 0, buffer.size_bytes, b"\0")
        timer.make(region, values)
        if spoiled.narrow:
            timer.narrow(region)
        elif spoiled.hole is not None and spoiled.hole[0] == name:
            timer.hole(region, *spoiled.hole[1:])
        return copy

    def at_new_addresses(self, module: Module) -> DeviceProgram:
        """The program with its buffers at new addresses, their contents still undefined."""
        device, arena = self._timer.device, self._arena
        return DeviceProgram(device, module, self.program, self.images, arena, arena.place)

    def hide(self, name: str, hiding: tuple[int, int]) -> Size:
        """Keep an encrypted copy of an output of the last run; its size (zeros for integers)."""
        assert self.last is not None, "the set has run"
        self._free(name)
        self.encrypted[name], size = encrypted_copy(self._timer, region_of(self.last, name), hiding)
        return size

    def bring(self, name: str) -> None:
        """Copy an encrypted copy to the host."""
        copy = self.encrypted[name]
        assert copy.memory is not None and self.last is not None, "encrypted on the device, of the last run"
        copy.host = self._timer.device.read(copy.memory, 0, region_of(self.last, name).size_bytes)

    def expect(self, name: str, hiding: tuple[int, int], data: Bytes) -> None:
        """Take an encrypted copy from another worker."""
        self._free(name)
        self.encrypted[name] = EncryptedCopy(hiding, host=data)

    def compare(self, prepared: DeviceProgram, bounds: Sequence[Close], expected: Copies, to: int) -> None:
        """Queue: compare outputs with encrypted copies; the answers go to device address `to`."""
        for i, output in enumerate(bounds):
            copy = expected[output.name]
            if copy.memory is None:
                assert copy.host is not None, "a copy is on the device or the host"
                copy.memory = self._timer.device.allocate(copy.host.size)
                self._timer.device.write(copy.memory, 0, copy.host)
                self._arena.own.add(copy.memory)
                copy.host = None
            region = region_of(prepared, output.name)
            self._timer.close(region, copy.memory, output.bound, copy.hiding, to + ANSWER_BYTES * i)

    def watch(self, bounds: Sequence[Close]) -> None:
        """Compare these outputs with their encrypted copies after every timed run."""
        self._watched = tuple(bounds)

    @property
    def watched_bytes(self) -> int:
        """The size of `compare_watched`'s results."""
        return ANSWER_BYTES * len(self._watched)

    def compare_watched(self, prepared: DeviceProgram, to: int) -> None:
        """As `compare`, for the watched outputs."""
        self.compare(prepared, self._watched, self.encrypted, to)

    def forget_copies(self) -> None:
        """Free the encrypted copies."""
        for name in list(self.encrypted):
            self._free(name)

    def _free(self, name: str) -> None:
        copy = self.encrypted.pop(name, None)
        if copy is not None and copy.memory is not None:
            self._drop(copy.memory)

    def _drop(self, memory: Memory) -> None:
        self._arena.own.drop(memory)
        self._timer.device.free(memory)

    def close(self) -> None:
        """Free the inputs and the encrypted copies."""
        self.forget_copies()
        for image in self.images.values():
            if isinstance(image, Image) and image.copy is not None:
                self._drop(image.copy)
        self.last = None


def encrypted_copy(
    arrays: DeviceArrays, region: Region, hiding: tuple[int, int]
) -> tuple[EncryptedCopy, Size]:
    """An encrypted copy of a region on the device, and the region's magnitudes (zeros for integers)."""
    memory = arrays.device.allocate(region.size_bytes)
    arrays.hide(region, memory, *hiding)
    if region.dtype not in FLOAT_KINDS:
        return EncryptedCopy(hiding, memory), Size(0.0, 0.0, 0)
    whole, count = arrays.magnitudes(region)
    return EncryptedCopy(hiding, memory), Size(whole.largest, whole.rms, count)


def add_fingerprint(
    timer: GpuTimer, prepared: DeviceProgram, names: Sequence[str], word: int, salt: int
) -> None:
    """Queue: add the fingerprints of the named outputs to the word at a device address.

    Outputs whose rows may be permuted together have one fingerprint, added for the first of them.
    """
    for name in names:
        key, members = salt + zlib.crc32(name.encode()), _record(prepared, name)
        if not members:
            timer.fingerprint(region_of(prepared, name), key, word)
        elif name == members[0]:
            count = prepared.slots[name].buffer.shape[0]
            timer.record_fingerprint([region_of(prepared, member) for member in members], count, key, word)


def _record(prepared: DeviceProgram, name: str) -> tuple[str, ...]:
    """The outputs whose rows may be permuted together with this one's; empty if none may."""
    buffer = prepared.slots[name].buffer
    if not unordered(buffer.record):
        return ()
    alone = (name,) if len(buffer.shape) > 1 else ()
    return next((record for record in prepared.program.records if name in record), alone)


def region_of(prepared: DeviceProgram, name: str) -> Region:
    """Where an output lies after a run, and what of it counts."""
    slot = prepared.bound[name]
    buffer = prepared.slots[name].buffer
    tolerance = buffer.record.tolerance
    counted_by = None
    if tolerance is not None and tolerance.valid is not None:
        count = prepared.bound[tolerance.valid]
        address, is_signed = count.memory.address + count.content_offset, count.buffer.record.dtype[0] != "u"
        counted_by = (address, count.buffer.itemsize, is_signed)
    ordered = not unordered(buffer.record)
    return _region(buffer, slot.memory, slot.content_offset, counted_by, ordered=ordered)


def read_range(prepared: DeviceProgram, place: Place) -> Bytes:
    """Part of an output, copied by the driver: a hostile side could have patched our kernels."""
    region, device = region_of(prepared, place.name), prepared.device
    if not region.layout:
        start = region.offset_bytes + place.start * region.itemsize
        return device.read(region.memory, start, place.count * region.itemsize)
    rank, base = region.layout[:2]
    extents, strides = region.layout[2 : 2 + rank], region.layout[2 + MAX_RANK : 2 + MAX_RANK + rank]
    index = np.unravel_index(np.arange(place.start, place.start + place.count), extents)
    offsets = np.full(place.count, base)
    for coordinate, stride in zip(index, strides, strict=True):
        offsets += coordinate * stride
    elements = [
        device.read(region.memory, region.offset_bytes + int(offset), region.itemsize) for offset in offsets
    ]
    return np.concatenate(elements)


def _region(
    buffer: BoundBuffer,
    memory: Memory,
    content_offset: int,
    counted_by: tuple[int, int, bool] | None = None,
    *,
    ordered: bool = True,
) -> Region:
    """The region of a buffer whose contents start `content_offset` bytes into memory."""
    layout: tuple[int, ...] = ()
    if buffer.view is not None:
        base, strides = strides_of(buffer)
        rest = [0] * (MAX_RANK - len(strides))
        layout = (len(strides), base, *buffer.shape, *rest, *strides, *rest)
    count = int(np.prod(buffer.shape, dtype=np.int64))
    dtype, itemsize = buffer.record.dtype, buffer.itemsize
    return Region(memory, content_offset, count, dtype, itemsize, layout, counted_by, ordered=ordered)


def unpack_answers(data: Bytes) -> tuple[CloseAnswer, ...]:
    """The answers of comparisons, from their bytes on the device."""
    return tuple(CloseAnswer(*words) for words in struct.iter_unpack(ANSWER_FORMAT, data.tobytes()))
