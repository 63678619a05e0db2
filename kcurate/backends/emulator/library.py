"""A compiled side loaded into this process, which must be a worker: its kernels and variables.

Owns the calls into `runtime/runtime.cpp`. Not covered: memory and the protocol (`memory`, `device`).
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from kcurate.backends.base import Compiled, Counts, FaultReason, Grid, KernelFault
from kcurate.errors import BackendError

# `schedule` passes kernels as the bits of one 64-bit word.
MOST_CROWDED = 64
# How many libraries this process has loaded.
_LOADS = itertools.count(1)
REASONS: dict[int, FaultReason] = {1: "launch_error", 2: "timeout", 3: "out_of_bounds", 4: "unsupported"}


class _Entry(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("invoke", ctypes.c_void_p),
        ("count", ctypes.c_uint),
        ("sizes", ctypes.POINTER(ctypes.c_uint)),
        ("cluster", ctypes.c_uint * 3),
    )


class _Symbol(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("address", ctypes.c_void_p), ("size", ctypes.c_ulong))


@dataclass(frozen=True)
class Kernel:
    """A kernel: its number in the binary, and the size of each parameter in bytes."""

    number: int
    params: tuple[int, ...]


@dataclass(frozen=True)
class Variable:
    """A `__device__` or `__constant__` variable."""

    address: int
    size_bytes: int


@dataclass(frozen=True)
class Failure:
    """A launch that ended with a fault. `address` is the faulting address, if any."""

    reason: FaultReason
    message: str
    address: int | None


class Library:
    """A loaded side.

    Raises:
        BackendError: the binary cannot be loaded.
    """

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self._closed = False
        self._followed = 0
        self.agreeing: frozenset[int] = frozenset()
        self._calls = _open(compiled.binary)
        self.kernels: dict[str, Kernel] = {}
        self.variables: dict[str, Variable] = {}
        for i, entry in enumerate(_table(self._calls.kcu_entry)):
            self.kernels[entry.name.decode()] = Kernel(i, tuple(entry.sizes[: entry.count]))
        for symbol in _table(self._calls.kcu_symbol):
            self.variables[symbol.name.decode()] = Variable(symbol.address, symbol.size)

    def close(self) -> None:
        """Free what launches need; no launch is possible afterwards."""
        if not self._closed:
            self._closed = True
            self._calls.kcu_close()

    def reset(self) -> None:
        """Reset every variable to its initial value."""
        self._calls.kcu_reset()

    def count(self, sample: int = 0, seed: int = 0, ablated: Collection[int] = ()) -> Counts:
        """The counts since the last call; the first call begins to count.

        From now on at most `sample` blocks of each launch run (0: all), which `seed` chooses. Counts are then
        those of whole launches, as if all blocks were like these. The parts of the code with the numbers
        `ablated`, all below 1024, are left out (`kcurate.mutate.guards`). `agreeing`
        then has the numbers of those whose probes always agreed.

        Raises:
            BackendError: the machine is out of memory.
        """
        counts = (ctypes.c_ulong * len(fields(Counts)))()
        bits = sum(1 << number for number in {*ablated})
        words = (ctypes.c_uint * 32)(*(bits >> 32 * word & 0xFFFFFFFF for word in range(32)))
        if self._calls.kcu_count(counts, sample, seed, words):
            raise BackendError("out of memory in the emulator", where="emulator")
        agreeing = sum(word << 32 * at for at, word in enumerate(words))
        self.agreeing = frozenset(number for number in range(1024) if agreeing >> number & 1)
        return Counts(*counts)

    def schedule(self, seed: int, room: Mapping[str, int] | None = None) -> None:
        """From now on run threads in the random order of `seed` (0: in their usual order).

        `room`: by kernel (name expression), the most static shared memory in bytes at which a GPU can keep
        all of its blocks resident. If blocks use more, and a block waits for one that has not started, the
        launch fails. Only the first 64 kernels are considered.
        """
        static_bytes = self._calls.kcu_static_shared_bytes()
        crowded = [name for name, fitting in (room or {}).items() if static_bytes > fitting]
        numbers = {self.kernels[name].number for name in crowded if name in self.kernels}
        self._calls.kcu_schedule(seed, sum(1 << number for number in numbers if number < MOST_CROWDED))

    def follow(self, pieces: Sequence[tuple[int, int]]) -> None:
        """From now on track how far pieces of memory (address, bytes) are read or written.

        Raises:
            BackendError: the machine is out of memory.
        """
        flat = [number for piece in pieces for number in piece]
        if self._calls.kcu_follow((ctypes.c_ulong * len(flat))(*flat), len(pieces)):
            raise BackendError("out of memory in the emulator", where="emulator")
        self._followed = len(pieces)

    def reached(self) -> tuple[int, ...]:
        """For each tracked piece, the number of bytes up to the last one that was read or written."""
        reached_bytes = (ctypes.c_ulong * self._followed)()
        self._calls.kcu_reached(reached_bytes)
        return tuple(reached_bytes)

    def launch(
        self,
        kernel: Kernel,
        grid: Grid,
        args: Sequence[bytes],
        limit_s: float,
        extents: ctypes.Array[ctypes.c_ulong],
    ) -> Failure | None:
        """Run a kernel; `args` must match its parameters in number and size. None: success.

        `extents`: the address and bytes of each allocation.
        """
        # 64-byte aligned copies: a parameter may be a tensor map
        sizes = [-(-len(data) // 64) * 64 for data in args]
        storage = ctypes.create_string_buffer(sum(sizes) + 64)
        at = -(-ctypes.addressof(storage) // 64) * 64
        pointers = (ctypes.c_void_p * (len(args) + 1))()
        for i, data in enumerate(args):
            ctypes.memmove(at, data, len(data))
            pointers[i] = at
            at += sizes[i]
        shape = (ctypes.c_uint * 9)(*grid.grid, *grid.block, *(grid.cluster or (0, 0, 0)))
        answer = self._calls.kcu_launch(
            kernel.number, shape, grid.shared_bytes, int(grid.cooperative), pointers, limit_s, extents,
            len(extents) // 2,
        )  # fmt: skip
        if not answer:
            return None
        message = self._calls.kcu_message().decode(errors="replace")
        return Failure(REASONS[answer], message, self._calls.kcu_address())


def _table(item_at: Any) -> list[Any]:
    items: list[Any] = []
    while item := item_at(len(items)):
        items.append(item.contents)
    return items


def _open(binary: bytes) -> ctypes.CDLL:
    # An anonymous file: the process needs no writable folder. The loader treats a library with the name of an
    # earlier one as the same library, so every load spells the path in its own way (`//`, `/./`).
    with contextlib.suppress(OSError):  # resolves symbols for a side linked without the C library
        ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    handle = os.memfd_create("kcurate-side")
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(binary)
        spelling = "".join("/." if bit == "1" else "/" for bit in f"{next(_LOADS):b}")
        calls = ctypes.CDLL(f"/proc/self/fd{spelling}/{handle}", mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise BackendError(f"a compiled side does not load: {error}", where="emulator") from error
    finally:
        os.close(handle)
    calls.kcu_entry.restype = ctypes.POINTER(_Entry)
    calls.kcu_symbol.restype = ctypes.POINTER(_Symbol)
    calls.kcu_message.restype = ctypes.c_char_p
    calls.kcu_address.restype = ctypes.c_void_p
    calls.kcu_static_shared_bytes.restype = ctypes.c_ulong
    calls.kcu_schedule.argtypes = (ctypes.c_uint, ctypes.c_ulonglong)
    calls.kcu_launch.argtypes = (
        ctypes.c_uint, ctypes.POINTER(ctypes.c_uint), ctypes.c_ulong, ctypes.c_int,
        ctypes.POINTER(ctypes.c_void_p), ctypes.c_double, ctypes.POINTER(ctypes.c_ulong), ctypes.c_uint,
    )  # fmt: skip
    if calls.kcu_open():
        raise BackendError("out of memory in the emulator", where="emulator")
    return calls


def check_launch(grid: Grid) -> None:
    """Reject what an H200 rejects (CUDA C++ Programming Guide, "Compute Capabilities", 9.0).

    Raises:
        KernelFault: the launch configuration is invalid.
    """
    x, y, z = grid.block
    threads = x * y * z
    if min(*grid.grid, *grid.block) < 1 or grid.shared_bytes < 0:
        raise KernelFault("launch_error", f"an empty launch: grid {grid.grid}, block {grid.block}")
    if threads > 1024 or z > 64 or grid.grid[0] >= 1 << 31 or max(grid.grid[1:]) > 65535:
        raise KernelFault("launch_error", f"an invalid configuration: grid {grid.grid}, block {grid.block}")
    if grid.shared_bytes > 227 << 10:
        raise KernelFault("launch_error", f"{grid.shared_bytes} bytes of dynamic shared memory")
