"""`Device` on the CUDA driver: plain allocations, one stream, launches; opened only in worker processes.

All work goes to one stream, in order. Untrusted kernels run here, so this class never allocates host memory
that a kernel could reach (managed or mapped memory). Not covered: graphs, events and the cache flush for
timing (`timer`), loading (`loaded`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from cuda.bindings import driver as cu

from kcurate.backends import base
from kcurate.backends.cuda import environment, loaded, tensor_maps
from kcurate.backends.cuda.driver import attribute, call, open_context
from kcurate.backends.cuda.slabs import Slabs, rounded
from kcurate.problem.tensor_maps import BoundTensorMap
from kcurate.records import Environment

NON_BLOCKING = 1
# Larger clusters need a function attribute (CUDA C++ Programming Guide, "Thread Block Clusters").
PORTABLE_CLUSTER = 8
# Device printf and malloc heaps are set to the driver's minimum; judged code must not use them.
SMALL_LIMIT_BYTES = 1 << 16


class CudaDevice:
    """One GPU; `index` is that of nvidia-smi. `divides` False: the driver makes every allocation separately.

    Raises:
        MissingDependencyError: there is no such GPU, or no driver.
    """

    name = "cuda"

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.handle, self._context = open_context(index)
        self.stream = call(cu.cuStreamCreate(NON_BLOCKING))
        for limit in (cu.CUlimit.CU_LIMIT_PRINTF_FIFO_SIZE, cu.CUlimit.CU_LIMIT_MALLOC_HEAP_SIZE):
            cu.cuCtxSetLimit(limit, SMALL_LIMIT_BYTES)
        major = attribute(self.handle, "COMPUTE_CAPABILITY_MAJOR")
        self.arch = f"sm_{major}{attribute(self.handle, 'COMPUTE_CAPABILITY_MINOR')}"
        self._compiler: str | None = None
        self._slabs = Slabs(_allocated, _freed)
        self.divides = True
        # Host arrays whose copies may not have finished; they must stay alive until then.
        self._written: list[base.Bytes] = []

    def environment(self) -> Environment:
        """The GPU, driver, clocks, temperature and power, read now."""
        return environment.read(self.handle, self._compiler)

    def load(self, compiled: base.Compiled) -> loaded.LoadedModule:
        """Load a cubin."""
        self._compiler = compiled.compiler
        return loaded.load(compiled)

    def unload(self, module: base.Module) -> None:
        """Remove a module's code and variables from the context; waits for the device."""
        self.synchronize()
        call(cu.cuModuleUnload(_own(module).handle))

    def reset_globals(self, module: base.Module) -> None:
        """Copy the initial values back into every variable of the module."""
        for image in _own(module).images:
            if image.values is None:
                call(cu.cuMemsetD8Async(image.address, 0, image.size_bytes, self.stream))
            else:
                values = image.values.ctypes.data
                call(cu.cuMemcpyHtoDAsync(image.address, values, image.size_bytes, self.stream))

    def allocate(self, size_bytes: int) -> base.Memory:
        """Plain device memory, 256-byte aligned; its size is rounded up if it is part of a slab."""
        if not self.divides:
            return base.Memory(_allocated(size_bytes), size_bytes)
        try:
            return base.Memory(self._slabs.take(size_bytes), rounded(size_bytes))
        except base.KernelFault as full:
            needed = self._slabs.total_bytes + size_bytes
            memory_bytes = environment.memory_bytes(self.handle)
            if full.reason != "out_of_memory" or needed < memory_bytes:
                raise
            problem = f"it needs {needed / 1e9:.0f} GB or more of the GPU's {memory_bytes / 1e9:.0f} GB"
            raise base.KernelFault("launch_error", f"out of memory: {problem}") from full

    def free(self, memory: base.Memory) -> None:
        """Free memory; a part of a slab is cleared and kept for later."""
        if not self.divides:
            _freed(memory.address)
            return
        self.fill(memory, 0, memory.size_bytes, b"\0")
        self._slabs.give_back(memory.address, memory.size_bytes)

    def shrink(self) -> None:
        """Return memory that is kept for later allocations to the driver."""
        self._slabs.shrink()

    def keep(self, memories: Sequence[base.Memory]) -> None:
        """Does nothing: changes by a kernel are detected afterwards."""

    def clear_unused(self) -> None:
        """Clear all memory that is kept for later allocations."""
        for address, size_bytes in self._slabs.unused:
            call(cu.cuMemsetD8Async(address, 0, size_bytes, self.stream))

    def write(self, memory: base.Memory, offset_bytes: int, data: base.Bytes) -> None:
        """Host to device; the host array must not change before the device is waited for.

        Waiting here would also wait for other processes that use the GPU.
        """
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        if flat.size:
            self._written.append(flat)
            call(
                cu.cuMemcpyHtoDAsync(memory.address + offset_bytes, flat.ctypes.data, flat.size, self.stream)
            )

    def read(self, memory: base.Memory, offset_bytes: int, size_bytes: int) -> base.Bytes:
        """Device to host; waits for earlier work."""
        data = np.empty(size_bytes, np.uint8)
        if size_bytes:
            source = memory.address + offset_bytes
            call(cu.cuMemcpyDtoHAsync(data.ctypes.data, source, size_bytes, self.stream))
        self.synchronize()
        return data

    def fill(self, memory: base.Memory, offset_bytes: int, size_bytes: int, pattern: bytes) -> None:
        """Repeat `pattern` (1, 2, 4 or 8 bytes) over a range."""
        address = memory.address + offset_bytes
        if len(set(pattern)) == 1:
            pattern = pattern[:1]
        elif len(pattern) == 8 and pattern[:4] == pattern[4:]:
            pattern = pattern[:4]
        if size_bytes <= 0:
            return
        if address % len(pattern) or len(pattern) == 8:
            self._fill_by_doubling(address, size_bytes, pattern)
            return
        value, count = int.from_bytes(pattern, "little"), size_bytes // len(pattern)
        fill = {1: cu.cuMemsetD8Async, 2: cu.cuMemsetD16Async, 4: cu.cuMemsetD32Async}[len(pattern)]
        call(fill(address, value, count, self.stream))

    def _fill_by_doubling(self, address: int, size_bytes: int, pattern: bytes) -> None:
        """Write the first bytes one by one, then repeatedly copy the filled part (works inside a graph)."""
        for i, byte in enumerate(pattern[:size_bytes]):
            call(cu.cuMemsetD8Async(address + i, byte, 1, self.stream))
        have = min(len(pattern), size_bytes)
        while have < size_bytes:
            step = min(have, size_bytes - have)
            call(cu.cuMemcpyDtoDAsync(address + have, address, step, self.stream))
            have += step

    def copy(
        self, to: base.Memory, to_offset: int, source: base.Memory, offset: int, size_bytes: int
    ) -> None:
        """Device to device."""
        if size_bytes > 0:
            start, end = source.address + offset, to.address + to_offset
            call(cu.cuMemcpyDtoDAsync(end, start, size_bytes, self.stream))

    def launch(
        self, module: base.Module, entry: base.EntryPoint, grid: base.Grid, args: Sequence[base.KernelArg]
    ) -> None:
        """Launch a kernel.

        Raises:
            KernelFault: the arguments do not fit its parameters, or the driver rejects the launch.
        """
        function = _own(module).function(entry)
        shared = grid.shared_bytes + (function.own_shared_bytes or 0)
        function.allow_shared(shared)
        pointers = function.pack(args)
        extent = (*grid.grid, *grid.block, shared, self.stream, pointers)
        if grid.cluster is not None:
            self._launch_clusters(function, grid, pointers)
        elif grid.cooperative:
            call(cu.cuLaunchCooperativeKernel(function.handle, *extent))
        else:
            call(cu.cuLaunchKernel(function.handle, *extent, 0))

    def _launch_clusters(self, function: loaded.Function, grid: base.Grid, pointers: int) -> None:
        assert grid.cluster is not None
        if math.prod(grid.cluster) > PORTABLE_CLUSTER:
            function.allow_any_cluster()
        config = cu.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = grid.block
        config.sharedMemBytes, config.hStream = grid.shared_bytes, self.stream
        cluster = cu.CUlaunchAttribute()
        cluster.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        value = cluster.value.clusterDim
        value.x, value.y, value.z = grid.cluster
        cooperative = cu.CUlaunchAttribute()
        cooperative.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        cooperative.value.cooperative = int(grid.cooperative)
        config.attrs, config.numAttrs = [cluster, cooperative], 2
        call(cu.cuLaunchKernelEx(config, function.handle, pointers, 0))

    def tensor_map(self, shape: BoundTensorMap, address: int) -> bytes:
        """Encode a TMA tensor map.

        Raises:
            KernelFault: the driver rejects it.
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
        """Copy into a variable of the module.

        Raises:
            KernelFault: there is no such variable, or the range exceeds it.
        """
        variable = _own(module).variable(symbol)
        base.check_range(symbol, variable.size_bytes, to_offset, size_bytes)
        target, start = variable.address + to_offset, source.address + offset
        call(cu.cuMemcpyDtoDAsync(target, start, size_bytes, self.stream))

    def bind_texture(
        self, module: base.Module, symbol: str, source: base.Memory, offset: int, width: int, height: int
    ) -> None:
        """Point a shim texture at memory: its variable gets the address, the width and the height."""
        variable = _own(module).variable(symbol)
        words = loaded.texture_words(source.address + offset, width, height)
        base.check_range(symbol, variable.size_bytes, 0, 4 * len(words))
        for i, word in enumerate(words):  # word by word, so that it can be part of a graph
            call(cu.cuMemsetD32Async(variable.address + 4 * i, word, 1, self.stream))

    def synchronize(self) -> None:
        """Wait for the stream."""
        call(cu.cuStreamSynchronize(self.stream))
        self._written.clear()

    def close(self) -> None:
        """Release the context."""
        call(cu.cuDevicePrimaryCtxRelease(self.handle))


def _allocated(size_bytes: int) -> int:
    return int(call(cu.cuMemAlloc(max(1, size_bytes))))


def _freed(address: int) -> None:
    call(cu.cuMemFree(address))


def _own(module: base.Module) -> loaded.LoadedModule:
    assert isinstance(module, loaded.LoadedModule)
    return module
