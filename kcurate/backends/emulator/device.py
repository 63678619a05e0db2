"""`Device` of the emulator: host memory, and kernels that run in this process; opened only in a worker.

Every call is synchronous; nothing is timed. Not covered: how a launch runs (`runtime/`).
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from kcurate import __version__
from kcurate.backends import base
from kcurate.backends.emulator import tensor_maps
from kcurate.backends.emulator.library import Failure, Library, Variable, check_launch
from kcurate.backends.emulator.memory import Memories, view
from kcurate.backends.triton.installed import INTERPRETED
from kcurate.core import time_limits
from kcurate.problem.tensor_maps import BoundTensorMap
from kcurate.records import Environment

TEXTURE_BYTES = 16


class EmulatorDevice:
    """The host as a GPU. `limit_s` is the CPU time allowed for one launch."""

    name = "emulator"

    def __init__(self, limit_s: float = time_limits.EMULATED_LAUNCH_S) -> None:
        self._limit_s = limit_s
        self._memories = Memories()
        self._kept: tuple[base.Memory, ...] = ()
        self._compiler: str | None = None
        self._libraries: list[Library] = []

    def environment(self) -> Environment:
        """The host, and the compiler of the loaded code."""
        return Environment(
            backend="emulator",
            device=f"emulator on {_processor()}",
            compiler=self._compiler,
            kcurate=__version__,
        )

    def load(self, compiled: base.Compiled) -> base.Module:
        """Load a side.

        Raises:
            BackendError: the binary does not load. KernelFault: a module in Triton does not run.
        """
        self._compiler = compiled.compiler
        if compiled.backend == INTERPRETED:
            from kcurate.backends.triton.interpreter import Interpreted

            return Interpreted(compiled)
        self._libraries.append(Library(compiled))
        return self._libraries[-1]

    def reset_globals(self, module: base.Module) -> None:
        """Reset every variable of the side to its initial value."""
        if module.compiled.backend != INTERPRETED:
            _own(module).reset()

    def counts(
        self, module: base.Module, sample: int = 0, seed: int = 0, ablated: Collection[int] = ()
    ) -> base.Counts:
        """What a side compiled with `examine` did since the last call; see `Library.count`."""
        return _own(module).count(sample, seed, ablated)

    def agreeing(self, module: base.Module) -> tuple[int, ...]:
        """The parts whose probes always agreed before the last counts; see `Library.count`."""
        return tuple(sorted(_own(module).agreeing))

    def schedule(self, module: base.Module, seed: int, room: Mapping[str, int] | None = None) -> None:
        """Run a side's threads in the random order of a seed; see `Library.schedule`."""
        _own(module).schedule(seed, room)

    def follow(self, module: base.Module, pieces: Sequence[tuple[int, int]]) -> None:
        """Track how far a side compiled with `examine` accesses memory; see `Library.follow`."""
        _own(module).follow(pieces)

    def reached(self, module: base.Module) -> tuple[int, ...]:
        """How far it accessed each piece; see `Library.reached`."""
        return _own(module).reached()

    def allocate(self, size_bytes: int) -> base.Memory:
        """Host memory between protected pages, 256-byte aligned."""
        return self._memories.allocate(size_bytes)

    def free(self, memory: base.Memory) -> None:
        """Free memory."""
        self._memories.free(memory)

    def keep(self, memories: Sequence[base.Memory]) -> None:
        """Make a kernel that writes to one of these fail, even if it would restore it."""
        self._kept = tuple(memories)

    def clear_unused(self) -> None:
        """Does nothing: freed memory is inaccessible."""

    def write(self, memory: base.Memory, offset_bytes: int, data: base.Bytes) -> None:
        """Host to device."""
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        view(memory, offset_bytes, flat.size)[:] = flat

    def read(self, memory: base.Memory, offset_bytes: int, size_bytes: int) -> base.Bytes:
        """Device to host."""
        return view(memory, offset_bytes, size_bytes).copy()

    def fill(self, memory: base.Memory, offset_bytes: int, size_bytes: int, pattern: bytes) -> None:
        """Repeat `pattern` (1, 2, 4 or 8 bytes) over a range."""
        target = view(memory, offset_bytes, max(0, size_bytes))
        whole = target.size // len(pattern) * len(pattern)
        repeated = np.frombuffer(pattern, np.uint8)
        target[:whole].reshape(-1, len(pattern))[:] = repeated
        target[whole:] = repeated[: target.size - whole]

    def copy(
        self, to: base.Memory, to_offset: int, source: base.Memory, offset: int, size_bytes: int
    ) -> None:
        """Device to device; the ranges may overlap."""
        if size_bytes > 0:
            view(to, to_offset, size_bytes)[:] = view(source, offset, size_bytes).copy()

    def launch(
        self, module: base.Module, entry: base.EntryPoint, grid: base.Grid, args: Sequence[base.KernelArg]
    ) -> None:
        """Run a kernel to completion.

        Raises:
            KernelFault: the launch is invalid, or the kernel did something that ends a run.
        """
        if module.compiled.backend == INTERPRETED:
            from kcurate.backends.triton.interpreter import Interpreted

            assert isinstance(module, Interpreted)
            module.launch(entry, grid, args)
            return
        library = _own(module)
        kernel = library.kernels.get(entry.expression)
        if kernel is None:
            raise base.KernelFault("launch_error", f"no kernel {entry.expression} in the binary")
        check_launch(grid)
        data = base.argument_bytes(args, kernel.params)
        with self._memories.read_only(self._kept):
            failure = library.launch(kernel, grid, data, self._limit_s, self._memories.extents)
        if failure is not None:
            raise self._fault(entry, failure)

    def _fault(self, entry: base.EntryPoint, failure: Failure) -> base.KernelFault:
        reason, text = failure.reason, failure.message
        if failure.address is not None:
            place = self._memories.describe(failure.address)
            text = f"{text}, {place}" if place else f"{text}, far from any allocation"
            reason = "out_of_bounds" if place else "launch_error"
        return base.KernelFault(reason, f"{entry.expression}: {text}")

    def tensor_map(self, shape: BoundTensorMap, address: int) -> bytes:
        """The 128 bytes of a TMA tensor map.

        Raises:
            KernelFault: the driver would reject it, or it is interleaved.
        """
        return tensor_maps.encode(shape, address)

    def upload(
        self,
        module: base.Module,
        symbol: str,
        to_offset: int,
        source: base.Memory,
        offset: int,
        size_bytes: int,
    ) -> None:
        """Copy into a variable of the side.

        Raises:
            KernelFault: there is no such variable, or the range exceeds it.
        """
        target = _variable(module, symbol, to_offset, size_bytes)
        view(base.Memory(target.address, target.size_bytes), to_offset, size_bytes)[:] = view(
            source, offset, size_bytes
        )

    def bind_texture(
        self, module: base.Module, symbol: str, source: base.Memory, offset: int, width: int, height: int
    ) -> None:
        """Point a shim texture at memory: its variable gets the address, the width and the height."""
        target = _variable(module, symbol, 0, TEXTURE_BYTES)
        words = np.array([source.address + offset, width | height << 32], np.uint64)
        view(base.Memory(target.address, target.size_bytes), 0, TEXTURE_BYTES)[:] = words.view(np.uint8)

    def synchronize(self) -> None:
        """Does nothing: no work is ever pending."""

    def close(self) -> None:
        """Free all memory; loaded code cannot be launched afterwards."""
        for library in self._libraries:
            library.close()
        self._memories.close()


def _own(module: base.Module) -> Library:
    assert isinstance(module, Library)
    return module


def _variable(module: base.Module, symbol: str, offset: int, size_bytes: int) -> Variable:
    variable = _own(module).variables.get(symbol)
    if variable is None:
        raise base.KernelFault("launch_error", f"no variable {symbol} in the binary")
    base.check_range(symbol, variable.size_bytes, offset, size_bytes)
    return variable


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
