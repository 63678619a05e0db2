"""A bound program on a device: reset its buffers, run its plan, read outputs back, check redzones.

Each buffer has its own allocation: redzone, declared pad, contents, pad, redzone. `reset` restores the
initial state of all buffers and module globals, so that a side cannot keep state between runs. `run` waits
for the device only where the plan reads a flag. Not covered: binding (`kcurate.problem.program`), comparing
outputs (`kcurate.judge.agreement`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
# Around inputs all bits are set: NaN as a float, -1 as an integer, so that an out-of-bounds read shows in the
# result. Other buffers get another byte, so that copying an input's redzone over theirs is seen.
REDZONE_BYTE_INPUT = 0xFF
REDZONE_BYTE = 0xFB
# Inputs of at least this size are checked by a checksum on the device, where there is one.
DIGEST_BYTES = 1 << 20
Array = npt.NDArray[Any]
# A checksum of (memory, offset, size in bytes), taken on the device with a secret salt.
Digest = Callable[[Memory, int, int], int]


class _Slot:
    """One buffer on the device; its contents begin `before` bytes into the allocation."""

    def __init__(self, allocate: Callable[[int], Memory], buffer: BoundBuffer, values: Array | None) -> None:
        self.buffer = buffer
        self.before = REDZONE_BYTES + -(-buffer.pad[0] * buffer.itemsize // 256) * 256
        self.after = REDZONE_BYTES + buffer.pad[1] * buffer.itemsize
        self.memory = allocate(self.before + buffer.size_bytes + self.after)
        self.image = None if values is None else to_physical(buffer, values)
        self.digest: int | None = None
        self.offsets: Array | None = None

    @property
    def redzone(self) -> int:
        """The byte that fills this buffer's redzones."""
        return REDZONE_BYTE_INPUT if self.buffer.record.role == "in" else REDZONE_BYTE

    @property
    def large_input(self) -> bool:
        """Whether this is an input that is cheaper to checksum on the device than to read back."""
        return self.buffer.record.role == "in" and self.buffer.size_bytes >= DIGEST_BYTES


class Prepared:
    """A program's buffers on a device, ready to run any number of times."""

    def __init__(
        self,
        device: Device,
        module: Module,
        program: Program,
        values: Mapping[str, Array],
        digest: Digest | None = None,
        allocate: Callable[[int], Memory] | None = None,
    ) -> None:
        self.device, self.module, self.program = device, module, program
        self._digest = digest
        self._owned = allocate is None
        self.slots = {
            name: _Slot(allocate or device.allocate, b, values.get(name))
            for name, b in program.buffers.items()
        }
        self._aim(values)
        self.bound = dict(self.slots)
        self.poison = 0
        self._forward: Forward | None = None

    def _aim(self, values: Mapping[str, Array]) -> None:
        """Fill each table of pointers with the addresses of this program's buffers."""

        def address(name: str) -> int:
            return self.slots[name].memory.address + self.slots[name].before

        for name, slot in self.slots.items():
            if is_table(slot.buffer) and name in values:
                slot.offsets = values[name]
                slot.image = aimed(slot.buffer, slot.offsets, self.program.buffers, address)

    def reset(self, poison: int) -> None:
        """Restore every buffer and module global to its state before a first run.

        `poison` is a 32-bit word that fills outputs and scratch; inputs get their values, padding gets zeros.
        """
        self.poison = poison & 0xFFFFFFFF
        self.bound = dict(self.slots)
        word = self.poison.to_bytes(4, "little")
        for slot in self.slots.values():
            size = slot.buffer.size_bytes
            around = bytes([slot.redzone])
            self.device.fill(slot.memory, 0, slot.before, around)
            self.device.fill(slot.memory, slot.before + size, slot.after, around)
            if slot.image is not None:
                self._write(slot, _bytes(slot.image))
            else:
                self._poison(slot, size, word)
            self._clear_pad(slot)
        self.reset_state()

    def reset_state(self) -> None:
        """Restore the module's globals (a PyTorch module has none)."""
        if not isinstance(self.module, TorchModule):
            self.device.reset_globals(self.module)

    def _write(self, slot: _Slot, image: Bytes) -> None:
        """Write a buffer's values, unless it is a large input that `integrity` has found unchanged."""
        if slot.digest is not None:
            return
        self.device.write(slot.memory, slot.before, image)
        if self._digest is not None and slot.large_input:
            slot.digest = self._digest(slot.memory, slot.before, slot.buffer.size_bytes)

    def _poison(self, slot: _Slot, size: int, word: bytes) -> None:
        whole = size // 4 * 4
        self.device.fill(slot.memory, slot.before, whole, word)
        if size > whole:
            self.device.fill(slot.memory, slot.before + whole, size - whole, word[:1])

    def _clear_pad(self, slot: _Slot) -> None:
        before, after = (count * slot.buffer.itemsize for count in slot.buffer.pad)
        if before:
            self.device.fill(slot.memory, slot.before - before, before, b"\0")
        if after:
            self.device.fill(slot.memory, slot.before + slot.buffer.size_bytes, after, b"\0")

    def run(self) -> None:
        """Issue the plan's operations in order; waits only where the plan reads a flag.

        Raises:
            KernelFault: a launch failed, or a `while_nonzero` reached its maximum.
        """
        self._issue(self.program.ops)

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
            if not self.device.read(slot.memory, slot.before, 4).any():
                return
        raise KernelFault("timeout", f"while_nonzero {op.flag}: still not zero after {op.limit} iterations")

    def _launch(self, op: LaunchOp) -> None:
        args: list[KernelArg] = []
        for argument in op.args:
            if isinstance(argument, BoundScalar):
                args.append(ScalarValue(argument.data))
            elif isinstance(argument, BoundPointers):
                members = map(self._pointer, argument.pointers)
                addresses = (each.memory.address + each.offset_bytes for each in members)
                args.append(ScalarValue(b"".join(address.to_bytes(8, "little") for address in addresses)))
            elif isinstance(argument, BoundTensorMap):
                place = self._pointer(BoundPointer(argument.buffer, argument.offset_bytes))
                address = place.memory.address + place.offset_bytes
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
            slot.memory, slot.before, slot.buffer.size_bytes, slot.buffer.shape, slot.buffer.record.dtype
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
        return Pointer(slot.memory, slot.before + argument.offset_bytes)

    def _move(self, op: FillOp | CopyOp | UploadOp | TextureOp) -> None:
        if isinstance(op, FillOp):
            slot = self.bound[op.buffer]
            self.device.fill(slot.memory, slot.before + op.offset_bytes, op.size_bytes, op.pattern)
        elif isinstance(op, CopyOp):
            source, to = self.bound[op.source], self.bound[op.to]
            start, target = source.before + op.offset_bytes, to.before + op.to_offset_bytes
            self.device.copy(to.memory, target, source.memory, start, op.size_bytes)
        elif isinstance(op, UploadOp):
            slot = self.bound[op.source]
            start = slot.before + op.offset_bytes
            self.device.upload(self.module, op.symbol, op.to_offset_bytes, slot.memory, start, op.size_bytes)
        else:
            slot = self.bound[op.buffer]
            self.device.bind_texture(self.module, op.symbol, slot.memory, slot.before, op.width, op.height)

    def outputs(self, without: frozenset[str] = frozenset()) -> dict[str, Array]:
        """Every `out` and `inout` buffer as its logical array, except those in `without`."""
        return {
            name: to_logical(slot.buffer, self._contents(self.bound[name]))
            for name, slot in self.slots.items()
            if slot.buffer.record.role in ("out", "inout") and name not in without
        }

    def _contents(self, slot: _Slot) -> Bytes:
        return self.device.read(slot.memory, slot.before, slot.buffer.size_bytes)

    def integrity(self) -> tuple[str, ...]:
        """Writes to redzones, inputs or the inputs' padding, one line each."""
        found = []
        for name, slot in self.slots.items():
            pads = [count * slot.buffer.itemsize for count in slot.buffer.pad]
            contents = slot.before + slot.buffer.size_bytes
            front = self.device.read(slot.memory, 0, slot.before - pads[0])
            back = self.device.read(slot.memory, contents + pads[1], slot.after - pads[1])
            if (front != slot.redzone).any() or (back != slot.redzone).any():
                found.append(f"wrote outside the buffer {name!r}")
            if slot.image is None or slot.buffer.record.role != "in":
                continue
            if not self._holds_its_values(slot, slot.image):
                found.append(f"changed the input {name!r}")
            starts = (slot.before - pads[0], contents)
            if any(
                self.device.read(slot.memory, start, size).any()
                for start, size in zip(starts, pads, strict=True)
                if size
            ):
                found.append(f"wrote into the padding of the input {name!r}")
        return tuple(found)

    def _holds_its_values(self, slot: _Slot, image: Array) -> bool:
        """Compare an input with its values, by checksum if one was taken, else byte by byte."""
        if slot.digest is not None and self._digest is not None:
            return self._digest(slot.memory, slot.before, slot.buffer.size_bytes) == slot.digest
        return np.array_equal(self._contents(slot), _bytes(image))

    def clone(self, allocate: Callable[[int], Memory] | None = None) -> Prepared:
        """The same program on copies of the buffers as they are now; it cannot be reset.

        The copies' memory comes from `allocate`, which keeps ownership (None: from the device).
        """
        tables = {name: slot.offsets for name, slot in self.slots.items() if slot.offsets is not None}
        other = Prepared(self.device, self.module, self.program, tables, allocate=allocate)
        for name, slot in self.slots.items():
            to = other.slots[name].memory
            self.device.copy(to, 0, slot.memory, 0, slot.memory.size_bytes)
            table = other.slots[name].image
            if table is not None:
                self.device.write(to, slot.before, _bytes(table))
        return other

    def close(self) -> None:
        """Free the buffers, unless their memory is owned by another."""
        if self._owned:
            for slot in self.slots.values():
                self.device.free(slot.memory)


def _bytes(array: Array) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
