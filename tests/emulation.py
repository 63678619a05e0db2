"""Small CUDA programs run on the emulator in a process of their own choosing: arrays in, arrays out."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from kcurate.backends.base import (
    Compiled,
    CompileFailure,
    EntryPoint,
    Grid,
    KernelArg,
    Memory,
    Pointer,
    ScalarValue,
)
from kcurate.backends.emulator.compiler import EmulatorCompiler
from kcurate.backends.emulator.device import EmulatorDevice

Array = np.ndarray[Any, np.dtype[Any]]


def compile_side(
    code: str, kernels: Sequence[str | EntryPoint] = ("f",), symbols: Sequence[str] = (), **options: bool
) -> Compiled:
    entries = [EntryPoint(kernel) if isinstance(kernel, str) else kernel for kernel in kernels]
    made = EmulatorCompiler().compile(code, entries, symbols, **options)
    assert isinstance(made, Compiled), made.log
    return made


def refuse(code: str, kernel: str = "f") -> CompileFailure:
    made = EmulatorCompiler().compile(code, [EntryPoint(kernel)])
    assert isinstance(made, CompileFailure)
    return made


class Program:
    """A compiled side on a device of its own."""

    def __init__(self, code: str, kernels: Sequence[str | EntryPoint] = ("f",), **options: Any) -> None:
        limit_s = options.pop("limit_s", 10.0)
        self.device = EmulatorDevice(limit_s)
        weakref.finalize(self, self.device.close)
        self.module = self.device.load(compile_side(code, kernels, **options))

    def put(self, array: Array) -> Memory:
        memory = self.device.allocate(array.nbytes)
        self.device.write(memory, 0, array)
        return memory

    def get(self, memory: Memory, like: Array) -> Array:
        return self.device.read(memory, 0, like.nbytes).view(like.dtype).reshape(like.shape)

    def run(
        self,
        *args: Array | np.generic,
        grid: int | tuple[int, int, int] = 1,
        block: int | tuple[int, int, int] = 32,
        kernel: str | EntryPoint = "f",
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: tuple[int, int, int] | None = None,
    ) -> list[Array]:
        """Launch with arrays as buffers and numpy scalars by value; what the arrays hold afterwards."""
        entry = EntryPoint(kernel) if isinstance(kernel, str) else kernel
        memories = [self.put(arg) if isinstance(arg, np.ndarray) else None for arg in args]
        values: list[KernelArg] = []
        for arg, memory in zip(args, memories, strict=True):
            values.append(ScalarValue(arg.tobytes()) if memory is None else Pointer(memory))
        shape = Grid(_three(grid), _three(block), shared_bytes, cooperative, cluster)
        self.device.launch(self.module, entry, shape, values)
        pairs = zip(args, memories, strict=True)
        return [self.get(memory, arg) for arg, memory in pairs if memory and isinstance(arg, np.ndarray)]


def _three(extent: int | tuple[int, int, int]) -> tuple[int, int, int]:
    return extent if isinstance(extent, tuple) else (extent, 1, 1)


def run(code: str, *args: Array | np.generic, **launch: Any) -> list[Array]:
    """Compile and launch the kernel `f`."""
    return Program(code).run(*args, **launch)
