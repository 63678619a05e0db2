"""A bound program on a device: reset its buffers, run its plan, read outputs back, check redzones.

Each buffer has its own allocation; the contents start at a random multiple of 256 bytes:

    | redzone | pad (zeros) | contents | pad (zeros) | redzone |

`DeviceProgram.reset` restores all of it, and module globals, so that a side cannot keep state between runs;
`integrity` finds out-of-bounds writes afterwards. `start` varies what stray reads see:

| start | redzones of inputs | other redzones | outputs and scratch |
|---|---|---|---|
| noise | noise | noise | noise |
| zeros | all bits set: NaN, or -1 | noise | zeros; half the time noise from a random byte on |
| kept | the input's values, rotated; noise if these are on the device | noise | as the last run left them |

Not covered: binding (`kcurate.problem.program`), comparing outputs (`kcurate.judge.agreement`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kcurate.backends.base import (
    Bytes,
    Device,
    EntryPoint,
    Grid,
    KernelArg,
    KernelFault,
    Memory,
    Module,
    Pointer,
    ScalarValue,
)
from kcurate.backends.noise import Held, HostNoise, Noise
from kcurate.backends.torch_module import Forward, Place, TorchModule
from kcurate.problem.addresses import aimed, is_table
from kcurate.problem.layout import to_logical, to_physical
from kcurate.problem.ops import (
    BoundBuffer,
    BoundPointer,
    BoundPointers,
    BoundScalar,
    CallOp,
    CopyOp,
    FillOp,
    LaunchOp,
    Op,
    Program,
    SwapOp,
    TextureOp,
    UploadOp,
    WhileOp,
)
from kcurate.problem.tensor_maps import BoundTensorMap

REDZONE_BYTES = 4096
# Buffers start at any multiple of this, the alignment that cudaMalloc promises.
ALIGNMENT = 256
# How many different multiples of it are drawn from.
SHIFTS = 4
# As a float NaN, as an integer -1: an out-of-bounds read shows in the outputs.
ALL_SET = np.full(1, 0xFF, np.uint8)
# The rows of the table above.
Start = Literal["noise", "zeros", "kept"]
# The runs of a trial, in order. The last two have the same addresses; other inputs may run between them.
STARTS: tuple[Start, ...] = ("noise", "zeros", "kept")
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Image:
    """A buffer's initial values: physical layout on the host, or a copy of them on the device."""

    host: Array | None = None
    copy: Memory | None = None


class _Slot:
    """One buffer on the device; its contents begin `content_offset` bytes into the allocation."""

    def __init__(self, buffer: BoundBuffer, *, tight: bool) -> None:
        self.buffer = buffer
        self.image: Image | None = None
        # The contents of both redzones with `start` kept; empty: they hold something else.
        self.lookalike_redzones: list[Bytes] = []
        before, after = (
            0 if tight else REDZONE_BYTES + secrets.randbelow(SHIFTS) * ALIGNMENT for _ in range(2)
        )
        pads = [count * buffer.itemsize for count in buffer.pad]
        self.content_offset = before - (-pads[0] // ALIGNMENT * ALIGNMENT)
        self.memory = Memory(0, self.content_offset + buffer.size_bytes + pads[1] + after)

    @property
    def redzones(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(offset, size) of the bytes before and after the contents and their pads."""
        pads = [count * self.buffer.itemsize for count in self.buffer.pad]
        end = self.content_offset + self.buffer.size_bytes + pads[1]
        return (0, self.content_offset - pads[0]), (end, self.memory.size_bytes - end)

    @property
    def pads(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(offset, size) of the zeros before and after the contents."""
        before, after = (count * self.buffer.itemsize for count in self.buffer.pad)
        return (self.content_offset - before, before), (self.content_offset + self.buffer.size_bytes, after)


class DeviceProgram:
    """A program's buffers on a device, ready to run any number of times.

    `values` are logical arrays or images on the device. `allocate` gives memory for all buffers that others
    free. `tight`: buffers end where their memory ends, without redzones.
    """

    def __init__(
        self,
        device: Device,
        module: Module,
        program: Program,
        values: Mapping[str, Array | Image],
        noise: Noise | None = None,
        allocate: Callable[[Sequence[int]], Sequence[Memory]] | None = None,
        *,
        tight: bool = False,
    ) -> None:
        self.device, self.module, self.program = device, module, program
        self._noise = noise or HostNoise(device)
        self._owned = allocate is None
        self.slots = {name: _Slot(buffer, tight=tight) for name, buffer in program.buffers.items()}
        sizes = [slot.memory.size_bytes for slot in self.slots.values()]
        places = allocate(sizes) if allocate is not None else _in_any_order(device, sizes)
        for slot, memory in zip(self.slots.values(), places, strict=True):
            slot.memory = memory
        self.set_values(values)
        self.bound = dict(self.slots)
        self._salt, self._start = 0, STARTS[0]
        self._forward: Forward | None = None

    def set_values(self, values: Mapping[str, Array | Image]) -> None:
        """Set what `reset` writes; tables of pointers get the addresses of this program's buffers."""

        def address(name: str) -> int:
            return self.slots[name].memory.address + self.slots[name].content_offset

        for name, slot in self.slots.items():
            value = values.get(name)
            if not isinstance(value, np.ndarray):
                slot.image = value
            elif is_table(slot.buffer):
                slot.image = Image(aimed(slot.buffer, value, self.program.buffers, address))
            else:
                slot.image = Image(to_physical(slot.buffer, value))

    def reset(self, salt: int, start: Start = "noise") -> None:
        """Restore every buffer and module global to its state before a first run.

        Inputs get their values, pads zeros, all else what the table above says. `salt` makes the noise differ
        from run to run, so that a side cannot know it from an earlier one.
        """
        self._salt, self._start = salt, start
        self.bound = dict(self.slots)
        for slot in self.slots.values():
            slot.lookalike_redzones = _lookalikes(slot) if start == "kept" else []
            for which, (at, size) in enumerate(slot.redzones):
                if slot.lookalike_redzones:
                    self.device.write(slot.memory, at, slot.lookalike_redzones[which])
                elif self._has_all_set_redzones(slot):
                    self.device.fill(slot.memory, at, size, ALL_SET.tobytes())
                else:
                    self._noise.noise(slot.memory, at, size, salt)
            for at, size in slot.pads:
                self.device.fill(slot.memory, at, size, b"\0")
            if slot.image is not None:
                self._write(slot, slot.image)
            elif start == "noise":
                self._noise.noise(slot.memory, slot.content_offset, slot.buffer.size_bytes, salt)
            elif start == "zeros":
                size = slot.buffer.size_bytes
                zeros = secrets.choice((size, secrets.randbelow(size + 1)))
                self.device.fill(slot.memory, slot.content_offset, zeros, b"\0")
                self._noise.noise(slot.memory, slot.content_offset + zeros, size - zeros, salt)
        self.reset_state()

    def _has_all_set_redzones(self, slot: _Slot) -> bool:
        return self._start == "zeros" and slot.buffer.record.role == "in"

    def reset_state(self) -> None:
        """Restore the module's globals (a PyTorch module has none)."""
        if not isinstance(self.module, TorchModule):
            self.device.reset_globals(self.module)

    def _write(self, slot: _Slot, image: Image) -> None:
        if image.copy is not None:
            self.device.copy(slot.memory, slot.content_offset, image.copy, 0, slot.buffer.size_bytes)
        elif image.host is not None:
            self.device.write(slot.memory, slot.content_offset, flat(image.host))

    def run(self) -> None:
        """Issue the plan's operations in order; waits only where the plan reads a flag.

        Raises:
            KernelFault: a launch failed, or a `while_nonzero` reached its maximum.
        """
        self.device.keep([slot.memory for slot in self.slots.values() if slot.buffer.record.role == "in"])
        try:
            self._issue(self.program.ops)
        finally:
            self.device.keep(())

    def _issue(self, ops: tuple[Op, ...]) -> None:
        for op in ops:
            if isinstance(op, WhileOp):
                self._loop(op)
            elif isinstance(op, SwapOp):
                self.bound[op.first], self.bound[op.second] = self.bound[op.second], self.bound[op.first]
            elif isinstance(op, LaunchOp):
                self._launch(op)
            elif isinstance(op, CallOp):
                self._call(op)
            else:
                self._move(op)

    def _loop(self, op: WhileOp) -> None:
        for _ in range(op.limit):
            self._issue(op.body)
            slot = self.bound[op.flag]
            if not self.device.read(slot.memory, slot.content_offset, 4).any():
                return
        raise KernelFault("timeout", f"while_nonzero {op.flag}: still not zero after {op.limit} iterations")

    def _launch(self, op: LaunchOp) -> None:
        args: list[KernelArg] = []
        for argument in op.args:
            if isinstance(argument, BoundScalar):
                args.append(ScalarValue(argument.data))
            elif isinstance(argument, BoundPointers):
                args.append(ScalarValue(argument.holding(map(self._address, argument.pointers))))
            elif isinstance(argument, BoundTensorMap):
                address = self._address(BoundPointer(argument.buffer, argument.offset_bytes))
                args.append(ScalarValue(self.device.tensor_map(argument, address)))
            else:
                args.append(self._pointer(argument))
        grid = Grid(op.grid, op.block, op.shared_bytes, op.cooperative, op.cluster)
        self.device.launch(self.module, EntryPoint(op.kernel, op.template), grid, args)

    def _call(self, op: CallOp) -> None:
        assert isinstance(self.module, TorchModule), "only a PyTorch side has calls"
        if self._forward is None:
            args = [self._place(arg) if isinstance(arg, str) else arg for arg in op.args]
            state = {path: self._place(name) for path, name in op.state.items()}
            to = [self._place(name) for name in op.to]
            sizes = self.program.sizes
            self._forward = Forward(self.device, self.module, op.call, sizes, args, state, to)
        self._forward.run()

    def _place(self, name: str) -> Place:
        slot = self.slots[name]
        return Place(
            slot.memory,
            slot.content_offset,
            slot.buffer.size_bytes,
            slot.buffer.shape,
            slot.buffer.record.dtype,
        )

    def finish(self) -> None:
        """Copy a PyTorch call's results to the output buffers, outside the measured span."""
        if self._forward is not None:
            self._forward.finish()

    @property
    def queued_operations(self) -> int | None:
        """The most operations that a PyTorch call queues on the stream; None if unknown or no call."""
        return None if self._forward is None else self._forward.pieces

    def _pointer(self, argument: BoundPointer) -> Pointer:
        slot = self.bound[argument.buffer]
        return Pointer(slot.memory, slot.content_offset + argument.offset_bytes)

    def _address(self, argument: BoundPointer) -> int:
        place = self._pointer(argument)
        return place.memory.address + place.offset_bytes

    def _move(self, op: FillOp | CopyOp | UploadOp | TextureOp) -> None:
        if isinstance(op, FillOp):
            slot = self.bound[op.buffer]
            self.device.fill(slot.memory, slot.content_offset + op.offset_bytes, op.size_bytes, op.pattern)
        elif isinstance(op, CopyOp):
            source, to = self.bound[op.source], self.bound[op.to]
            start, target = source.content_offset + op.offset_bytes, to.content_offset + op.to_offset_bytes
            self.device.copy(to.memory, target, source.memory, start, op.size_bytes)
        elif isinstance(op, UploadOp):
            slot = self.bound[op.source]
            start = slot.content_offset + op.offset_bytes
            self.device.upload(self.module, op.symbol, op.to_offset_bytes, slot.memory, start, op.size_bytes)
        else:
            slot = self.bound[op.buffer]
            self.device.bind_texture(
                self.module, op.symbol, slot.memory, slot.content_offset, op.width, op.height
            )

    def outputs(self, without: Collection[str] = ()) -> dict[str, Array]:
        """Every `out` and `inout` buffer as its logical array, except those in `without`."""
        return {
            name: to_logical(slot.buffer, self._contents(self.bound[name]))
            for name, slot in self.slots.items()
            if slot.buffer.record.role in ("out", "inout") and name not in without
        }

    def _contents(self, slot: _Slot) -> Bytes:
        return self.device.read(slot.memory, slot.content_offset, slot.buffer.size_bytes)

    def integrity(self) -> tuple[str, ...]:
        """Writes to redzones, padding or inputs, one line each."""
        ranges: list[tuple[str, Held]] = []
        faults = []
        for name, slot in self.slots.items():
            outside = f"wrote outside the buffer {name!r}"
            if slot.lookalike_redzones or self._has_all_set_redzones(slot):
                held = slot.lookalike_redzones or [ALL_SET] * 2
                for (at, size), wanted in zip(slot.redzones, held, strict=True):
                    faults += [outside] * bool((self.device.read(slot.memory, at, size) != wanted).any())
            else:
                ranges += [(outside, Held(slot.memory, *zone, self._salt)) for zone in slot.redzones]
            if any(self.device.read(slot.memory, at, size).any() for at, size in slot.pads if size):
                faults.append(f"wrote into the padding of {name!r}")
            if slot.image is None or slot.buffer.record.role != "in":
                continue
            changed = f"changed the input {name!r}"
            if slot.image.copy is not None:
                size = slot.buffer.size_bytes
                ranges.append((changed, Held(slot.memory, slot.content_offset, size, slot.image.copy)))
            elif slot.image.host is not None:
                faults += [changed] * (not np.array_equal(self._contents(slot), flat(slot.image.host)))
        tested = self._noise.changed([held for _, held in ranges])
        faults += [text for (text, _), changed in zip(ranges, tested, strict=True) if changed]
        return tuple(dict.fromkeys(faults))

    def close(self) -> None:
        """Free the buffers, unless `allocate` gave their memory."""
        if self._owned:
            for slot in self.slots.values():
                self.device.free(slot.memory)


def _in_any_order(device: Device, sizes: Sequence[int]) -> list[Memory]:
    """Memory of each size, allocated in random order: no side can tell a buffer by its address."""
    order = secrets.SystemRandom().sample(range(len(sizes)), len(sizes))
    places = {at: device.allocate(sizes[at]) for at in order}
    return [place for _, place in sorted(places.items())]


def _lookalikes(slot: _Slot) -> list[Bytes]:
    """An input's own values, rotated by a random number of elements, as the contents of its redzones."""
    host = slot.image.host if slot.image is not None else None
    if host is None or not host.size or slot.buffer.record.role != "in":
        return []
    values = np.roll(flat(host), secrets.randbelow(host.size) * slot.buffer.itemsize)
    return [np.resize(values, size) for _, size in slot.redzones]


def flat(array: Array) -> Bytes:
    """An array's bytes."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
