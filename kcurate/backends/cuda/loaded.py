"""A loaded cubin: its functions with their parameter layout, and its variables with their initial values.

Owns what lives inside one CUDA module. Not covered: launching (`device`), the file's contents (`cubin`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from kcurate.backends import base
from kcurate.backends.cuda import cubin
from kcurate.backends.cuda.driver import call

# Shared memory beyond this, static and dynamic together, is opt-in (CUDA C++ Programming Guide, "Shared
# memory").
DEFAULT_SHARED_BYTES = 48 * 1024
# Variables of one section that are at most this far apart have only alignment between them.
NEIGHBOUR_BYTES = 16
# The most pointers to scratch memory after the arguments of a kernel that Triton compiled.
SCRATCH_POINTERS = 2
# Alignment of the arguments in memory, which a tensor map needs.
ALIGNMENT = 64


@dataclass
class Function:
    """A kernel and the layout of its parameters: (offset, size) in bytes.

    `own_shared_bytes`: the dynamic shared memory that Triton asks for (None: the kernel is not from Triton).
    `dynamic_shared_bytes`: the most that a launch may currently ask for.
    """

    handle: Any
    params: tuple[tuple[int, int], ...]
    own_shared_bytes: int | None = None
    dynamic_shared_bytes: int = DEFAULT_SHARED_BYTES

    def __post_init__(self) -> None:
        # The driver copies the arguments at each launch, so one buffer is enough.
        self._sizes = [size for _, size in self.params]
        size_bytes = max((offset + size for offset, size in self.params), default=0)
        storage = (ctypes.c_char * (size_bytes + ALIGNMENT))()
        address = ctypes.addressof(storage)
        start = -(-address // ALIGNMENT) * ALIGNMENT
        self._arguments = memoryview(storage).cast("B")[start - address :]
        self._pointers = (ctypes.c_uint64 * (len(self.params) + 1))(
            *(start + offset for offset, _ in self.params)
        )

    def allow_shared(self, wanted_bytes: int) -> None:
        """Opt in to more dynamic shared memory; the driver rejects more than the GPU has."""
        if wanted_bytes > self.dynamic_shared_bytes:
            attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call(cu.cuFuncSetAttribute(self.handle, attribute, wanted_bytes))
            self.dynamic_shared_bytes = wanted_bytes

    def allow_any_cluster(self) -> None:
        """Opt in to clusters of more than eight blocks."""
        attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        call(cu.cuFuncSetAttribute(self.handle, attribute, 1))

    def pack(self, args: Sequence[base.KernelArg]) -> int:
        """The address of the driver's array of argument pointers; it is valid for the next launch only.

        Raises:
            KernelFault: the number or sizes of the arguments do not match the kernel's parameters.
        """
        if self.own_shared_bytes is not None:
            scratch = min(SCRATCH_POINTERS, max(0, len(self.params) - len(args)))
            args = (*args, *[base.ScalarValue(bytes(8))] * scratch)
        for (offset, size), part in zip(self.params, base.argument_bytes(args, self._sizes), strict=True):
            self._arguments[offset : offset + size] = part
        return ctypes.addressof(self._pointers)


@dataclass(frozen=True)
class Variable:
    """A `__device__` or `__constant__` variable; the driver allocates each section of a binary separately."""

    address: int
    size_bytes: int
    section: str


@dataclass(frozen=True)
class Image:
    """A range of variables and its initial contents (None: zeros).

    The values are kept on the host, where the module's code cannot change them.
    """

    address: int
    size_bytes: int
    values: base.Bytes | None


@dataclass
class LoadedModule:
    """A binary loaded into the context; `images` cover all its `variables`."""

    compiled: base.Compiled
    handle: Any
    variables: dict[str, Variable]
    images: tuple[Image, ...] = ()
    functions: dict[str, Function] = field(default_factory=dict)

    def function(self, entry: base.EntryPoint) -> Function:
        """The kernel for a plan's entry point.

        Raises:
            KernelFault: the binary has no such kernel.
        """
        expression = entry.expression
        if expression not in self.functions:
            symbol = self.compiled.lowered.get(expression, entry.name)
            handle = call(cu.cuModuleGetFunction(self.handle, symbol.encode()))
            params = cubin.parameters(self.compiled.binary, symbol)
            shared = self.compiled.dynamic_shared.get(symbol)
            attribute = cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
            static_bytes = call(cu.cuFuncGetAttribute(attribute, handle))
            self.functions[expression] = Function(handle, params, shared, DEFAULT_SHARED_BYTES - static_bytes)
        return self.functions[expression]

    def variable(self, name: str) -> Variable:
        """The variable that a plan names.

        Raises:
            KernelFault: the binary has no such variable.
        """
        symbol = self.compiled.lowered.get(name, name)
        if symbol not in self.variables:
            raise base.KernelFault("launch_error", f"no variable {name} in the binary")
        return self.variables[symbol]


def load(compiled: base.Compiled) -> LoadedModule:
    """Load a cubin and keep its variables' initial values.

    Raises:
        KernelFault: the driver rejects the binary.
    """
    handle = call(cu.cuModuleLoadData(compiled.binary))
    variables = {}
    for variable in cubin.variables(compiled.binary):
        error, address, size_bytes = cu.cuModuleGetGlobal(handle, variable.name.encode())
        if int(error) or not size_bytes:
            continue
        variables[variable.name] = Variable(int(address), int(size_bytes), variable.section)
    return LoadedModule(compiled, handle, variables, tuple(map(_image, ranges(variables.values()))))


def ranges(variables: Iterable[Variable]) -> list[tuple[int, int]]:
    """(start, end) ranges that cover all variables; neighbours, such as a library's tags, share a range.

    A range stays in one section: the driver refuses to copy across two allocations, even adjacent ones.
    """
    merged: list[tuple[str, int, int]] = []
    places = (
        (variable.section, variable.address, variable.address + variable.size_bytes) for variable in variables
    )
    for section, start, end in sorted(places):
        if merged and merged[-1][0] == section and start <= merged[-1][2] + NEIGHBOUR_BYTES:
            _, start, before = merged.pop()
            end = max(end, before)
        merged.append((section, start, end))
    return [(start, end) for _, start, end in merged]


def _image(place: tuple[int, int]) -> Image:
    values = np.empty(place[1] - place[0], np.uint8)
    call(cu.cuMemcpyDtoH(values.ctypes.data, place[0], values.size))
    return Image(place[0], values.size, values if values.any() else None)


def texture_words(address: int, width: int, height: int) -> tuple[int, int, int, int]:
    """A shim texture as 32-bit words: the address (low, high), the width and the height in texels."""
    return address & 0xFFFFFFFF, address >> 32, width, height
