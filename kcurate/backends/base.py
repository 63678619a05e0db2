"""The interface between the judge and the backends that run device code; makes no pass/fail decision.

Two implementations: `kcurate.backends.cuda` (NVRTC, and launches through cuda-core) and
`kcurate.backends.emulator` (the same code as host C++, with the threads of a block as fibers). A `Compiler`
runs in a compile worker and needs no GPU; a `Device` lives in one worker process and runs untrusted code, so
it must never be opened in the process that decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from kcurate.errors import KcurateError
from kcurate.problem.tensor_maps import BoundTensorMap
from kcurate.records import Environment, Resources

Bytes = npt.NDArray[np.uint8]
# The backend of a `Compiled` whose binary is PTX that still has to be assembled.
PTX = "ptx"
# A compiler's log is cut to this size before it is sent to the judge, since a template bomb writes megabytes.
# The judge keeps only the lines about the side's own code (`kcurate.judge.workers.own_lines`).
MAX_RAW_LOG_CHARS = 1 << 18
# The shared libraries of programs that a compiler starts.
SYSTEM_LIBRARIES = tuple(map(Path, ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")))
FaultReason = Literal["launch_error", "timeout", "out_of_bounds", "unsupported", "out_of_memory"]


@dataclass(frozen=True)
class EntryPoint:
    """A kernel that a plan launches: its name and, for a template, its arguments as C++ text."""

    name: str
    template: tuple[str, ...] = ()

    @property
    def expression(self) -> str:
        """The C++ name expression, such as `reduce<float, 256>`."""
        return f"{self.name}<{', '.join(self.template)}>" if self.template else self.name


@dataclass(frozen=True)
class Unread:
    """What a kernel never reads, by the positions of its arguments.

    `arguments`: unused. `only_written`, `updated`: pointers to memory that it only writes, with stores or
    also with atomics. `shared_bytes`: static shared memory. `dynamic`: it reads no dynamic shared memory.
    `lone_fences`: it has memory fences, but nothing in it communicates with other blocks.
    """

    arguments: tuple[int, ...] = ()
    only_written: tuple[int, ...] = ()
    updated: tuple[int, ...] = ()
    shared_bytes: int = 0
    dynamic: bool = False
    lone_fences: bool = False


@dataclass(frozen=True)
class Compiled:
    """A binary and its properties. `lowered` maps name expressions to symbols in the binary.

    `unread`: what each kernel never reads, by symbol, if it was compiled with `examine`. `outside`: what its
    PTX reads from outside a launch (`kcurate.ptx.outside`). `dynamic_shared`: for kernels compiled by Triton,
    the dynamic shared memory of every launch, by symbol; such a kernel has null pointers to scratch memory
    after its arguments.
    """

    backend: str
    binary: bytes
    sha256: str
    lowered: Mapping[str, str]
    resources: tuple[Resources, ...]
    compiler: str
    unread: Mapping[str, Unread] = field(default_factory=dict)
    dynamic_shared: Mapping[str, int] = field(default_factory=dict)
    outside: tuple[str, ...] = ()

    @property
    def local_bytes(self) -> int:
        """The largest local memory frame of its kernels, per thread."""
        return max((kernel.local_bytes or 0 for kernel in self.resources), default=0)


@dataclass(frozen=True)
class CompileFailure:
    """The compiler rejected the code (`error`), exceeded a limit, or cannot compile an instruction for this
    backend (`unsupported`). `log` contains no host path."""

    reason: Literal["error", "timeout", "memory", "unsupported"]
    log: str


class Compiler(Protocol):
    """Compiles device code to a binary. Stateless; safe to call in many processes at once."""

    def folders(self) -> tuple[Path, ...] | None:
        """The files and folders that it reads; None: the sandbox has its own list."""
        ...

    def compile(
        self,
        code: str,
        entry_points: Sequence[EntryPoint],
        symbols: Sequence[str] = (),
        *,
        sanitize: bool = False,
        examine: bool = False,
    ) -> Compiled | CompileFailure:
        """Compile one side. `symbols` are the `__constant__`/`__device__` names that the plan uploads to.

        `examine`: also record what the side wastes; see `Compiled.unread` and `EmulatorDevice.counts`.

        Raises:
            MissingDependencyError: there is no compiler. BackendError: the compiler itself failed.
        """
        ...


class KernelFault(KcurateError):  # noqa: N818 - a fact about a candidate, not an error of ours
    """The candidate did something that ends its run; this is a result, not an error of ours.

    Raised by a `Device` inside a worker and turned into a verdict there. `reason` is one of
    `launch_error` (rejected launch, illegal address, trap, divergent barrier, deadlock), `timeout`,
    `out_of_bounds`, `unsupported` (this backend lacks something that a GPU has), `out_of_memory` (perhaps
    because of others on the same GPU).
    """

    def __init__(self, reason: FaultReason, what: str) -> None:
        self.reason = reason
        super().__init__(what)


@dataclass(frozen=True)
class Memory:
    """An allocation on a device: `address` as the kernel sees it, and its size."""

    address: int
    size_bytes: int


@dataclass(frozen=True)
class ScalarValue:
    """A by-value argument, as the raw bytes of the kernel's parameter (little endian, C layout)."""

    data: bytes


@dataclass(frozen=True)
class Pointer:
    """A pointer argument: `offset_bytes` into an allocation."""

    memory: Memory
    offset_bytes: int = 0

    @property
    def data(self) -> bytes:
        """The address, as a kernel's parameter."""
        return (self.memory.address + self.offset_bytes).to_bytes(8, "little")


KernelArg = ScalarValue | Pointer


def argument_bytes(args: Sequence[KernelArg], sizes: Sequence[int]) -> list[bytes]:
    """The bytes of each argument; `sizes` are those of the kernel's parameters.

    Raises:
        KernelFault: the number or the sizes of the arguments differ from the parameters'.
    """
    if len(args) != len(sizes):
        raise KernelFault("launch_error", f"{len(args)} arguments for {len(sizes)} parameters")
    data = [arg.data for arg in args]
    for i, (part, size) in enumerate(zip(data, sizes, strict=True)):
        if len(part) != size:
            mismatch = f"argument {i} has {len(part)} bytes, the parameter takes {size}"
            raise KernelFault("launch_error", mismatch)
    return data


def check_range(symbol: str, holds_bytes: int, offset: int, size_bytes: int) -> None:
    """Check that a copy stays inside a variable.

    Raises:
        KernelFault: it exceeds the variable.
    """
    if offset < 0 or size_bytes < 0 or offset + size_bytes > holds_bytes:
        problem = f"{symbol} holds {holds_bytes} bytes, not {offset} + {size_bytes}"
        raise KernelFault("launch_error", problem)


@dataclass(frozen=True)
class Grid:
    """Launch configuration: blocks, threads, dynamic shared memory in bytes, blocks in a cluster."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    cooperative: bool = False
    cluster: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class Counts:
    """What a side did, summed over all launches.

    `threads`; `idle`: threads that accessed no memory; `accesses` to global and shared memory; `code_bytes`:
    host machine code executed; `shared_bytes`, `shared_read_bytes`: the most dynamic shared memory of a
    launch, and the most that a launch read of it; `static_bytes`, `static_read_bytes`: the same for static
    shared memory.

    What its time depends on: `launches`; `chain_bytes`, `chain_accesses`: code and global accesses of the
    longest chain of threads that wait for each other, per launch; `held_bytes`, `held_accesses`: the same per
    block, times the share of a multiprocessor that the block occupies (registers not counted); `warp_bytes`:
    code of warps, each as much as its busiest lane; `sectors`: of 32 bytes, per warp and access; `scattered`:
    sectors of accesses without a constant stride between lanes; `shared_accesses`; `atomics`; `contended`:
    the most atomics on one address.
    """

    threads: int
    idle: int
    accesses: int
    code_bytes: int
    shared_bytes: int
    shared_read_bytes: int
    static_bytes: int
    static_read_bytes: int
    launches: int = 0
    chain_bytes: int = 0
    chain_accesses: int = 0
    held_bytes: int = 0
    held_accesses: int = 0
    warp_bytes: int = 0
    sectors: int = 0
    shared_accesses: int = 0
    atomics: int = 0
    contended: int = 0
    scattered: int = 0


class Module(Protocol):
    """A loaded binary."""

    @property
    def compiled(self) -> Compiled:
        """The binary that was loaded."""
        ...


class Device(Protocol):
    """One device in one process. Every method may raise `KernelFault`; after that, the process must end.

    Launches and copies run in order; `read` and `synchronize` wait for earlier work.
    """

    name: str

    def environment(self) -> Environment:
        """The device, driver, compiler, and current clocks and temperatures."""
        ...

    def load(self, compiled: Compiled) -> Module:
        """Load a binary."""
        ...

    def reset_globals(self, module: Module) -> None:
        """Reset every `__device__` and `__constant__` variable to its initial value."""
        ...

    def allocate(self, size_bytes: int) -> Memory:
        """Allocate device memory, 256-byte aligned, contents undefined."""
        ...

    def free(self, memory: Memory) -> None:
        """Free memory."""
        ...

    def keep(self, memories: Sequence[Memory]) -> None:
        """Let kernels change none of these allocations, where the device can see to it, and any others."""
        ...

    def clear_unused(self) -> None:
        """Clear memory that is not allocated but that code on the device could read."""
        ...

    def write(self, memory: Memory, offset_bytes: int, data: Bytes) -> None:
        """Copy host bytes into device memory."""
        ...

    def read(self, memory: Memory, offset_bytes: int, size_bytes: int) -> Bytes:
        """Copy device bytes to the host."""
        ...

    def fill(self, memory: Memory, offset_bytes: int, size_bytes: int, pattern: bytes) -> None:
        """Repeat `pattern` (1, 2, 4 or 8 bytes) over a range."""
        ...

    def copy(self, to: Memory, to_offset: int, source: Memory, offset: int, size_bytes: int) -> None:
        """Copy device to device; offsets in bytes."""
        ...

    def launch(self, module: Module, entry: EntryPoint, grid: Grid, args: Sequence[KernelArg]) -> None:
        """Launch a kernel. A configuration that the device rejects is a `KernelFault`."""
        ...

    def tensor_map(self, shape: BoundTensorMap, address: int) -> bytes:
        """The 128 bytes of a TMA tensor map over memory that starts at `address`."""
        ...

    def upload(
        self, module: Module, symbol: str, to_offset: int, source: Memory, offset: int, size_bytes: int
    ) -> None:
        """Copy device bytes into a `__constant__` or `__device__` variable of the module."""
        ...

    def bind_texture(
        self, module: Module, symbol: str, source: Memory, offset: int, width: int, height: int
    ) -> None:
        """Point a shim texture (see `kcurate.cuda_source`) at memory; sizes in texels, height 0 for 1-D."""
        ...

    def synchronize(self) -> None:
        """Wait for all work."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...
