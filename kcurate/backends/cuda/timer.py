"""Timing primitives of a GPU beyond `Device`: events, graphs, a gate, a cache flush, checksums.

Only our own kernels run here, from one small binary (`HELPERS`). Every method queues work on the device's
stream, unless it says that it waits. Not covered: the timing protocol (`kcurate.judge.timing.blocks`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from cuda.bindings import driver as cu

from kcurate.backends.base import Compiled, EntryPoint, Memory, ScalarValue
from kcurate.backends.cuda.device import CudaDevice
from kcurate.backends.cuda.driver import NotCapturable, attribute, call

HELPERS = r"""
typedef unsigned long long u64;
extern "C" __global__ void kc_read(const uint4* p, u64 n, unsigned* sink) {
    unsigned acc = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        uint4 v = p[i];
        acc += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (acc == 0x9e3779b9u) *sink = acc;
}
extern "C" __global__ void kc_copy(const uint4* p, uint4* q, u64 n) {
    u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (i < n) q[i] = p[i];
}
extern "C" __global__ void kc_empty() {}
extern "C" __global__ void kc_spin(unsigned rounds, unsigned* sink) {
    unsigned v = threadIdx.x;
    for (unsigned r = 0; r < rounds; ++r) v = v * 1664525u + 1013904223u + (v >> 16);
    if (v == 0x9e3779b9u) *sink = v;
}
extern "C" __global__ void kc_checksum(const unsigned char* p, u64 n, u64 salt, u64* slot) {
    u64 sum = 0;
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < (n + 7) / 8; i += step) {
        u64 v = 0;
        if (8 * i + 8 <= n) v = *(const u64*)(p + 8 * i);
        else for (u64 j = 8 * i; j < n; ++j) v = v << 8 | p[j];
        u64 z = v + (i + salt) * 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        sum += z ^ (z >> 31);
    }
    for (int s = 16; s; s >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, s);
    if (!(threadIdx.x & 31)) atomicAdd(slot, sum);
}
"""
HELPER_ENTRIES = tuple(
    EntryPoint(name) for name in ("kc_read", "kc_copy", "kc_empty", "kc_spin", "kc_checksum")
)
# The cache is flushed by reading this multiple of its size.
FLUSH_FACTOR = 2.5
THREADS = 512
MAX_GATED = 400
WAIT_GEQ = 0


class GpuTimer:
    """Timing primitives of one device. `helpers` is `HELPERS` compiled for it."""

    def __init__(self, device: CudaDevice, helpers: Compiled) -> None:
        self.device = device
        self._module = device.load(helpers)
        self._multiprocessors = attribute(device.handle, "MULTIPROCESSOR_COUNT")
        self.l2_bytes = attribute(device.handle, "L2_CACHE_SIZE")
        self.flush_bytes = (int(self.l2_bytes * FLUSH_FACTOR) + 4095) // 4096 * 4096
        self.scratch = device.allocate(self.flush_bytes)
        self._sink = device.allocate(256)
        self.word = device.allocate(256)
        self._words: Memory | None = None
        device.fill(self.scratch, 0, self.flush_bytes, b"\x5a")
        self._gate_host = int(call(cu.cuMemHostAlloc(256, 2)))  # mapped; contains only the gate
        self._gate_device = int(call(cu.cuMemHostGetDevicePointer(self._gate_host, 0)))
        self._gate_value = 0
        self._set_gate(0)

    def _run(self, name: str, blocks: int, values: Sequence[tuple[int, int]], threads: int = THREADS) -> None:
        """Launch a helper kernel; `values` are (value, size in bytes) of its parameters."""
        function = self._module.function(EntryPoint(name))
        args = [ScalarValue(value.to_bytes(size, "little")) for value, size in values]
        pointers, _storage = function.pack(args)
        extent = (blocks, 1, 1, threads, 1, 1, 0, self.device.stream, pointers.ctypes.data)
        call(cu.cuLaunchKernel(function.handle, *extent, 0))

    def flush(self) -> None:
        """Evict the L2 cache by reads, which leave only clean lines in it."""
        count = self.flush_bytes // 16
        self._run(
            "kc_read",
            self._multiprocessors * 4,
            [(self.scratch.address, 8), (count, 8), (self._sink.address, 8)],
        )

    def empty(self) -> None:
        """Launch an empty kernel."""
        self._run("kc_empty", 1, [], 32)

    def spin(self, rounds: int) -> None:
        """Launch a compute-bound kernel whose duration hardly depends on other activity."""
        self._run("kc_spin", self._multiprocessors, [(rounds, 4), (self._sink.address, 8)], 128)

    def copy(self, to: Memory, source: Memory, size_bytes: int) -> None:
        """Copy with a plain kernel, 16 bytes per thread (to measure copy bandwidth)."""
        count = size_bytes // 16
        self._run("kc_copy", -(-count // THREADS), [(source.address, 8), (to.address, 8), (count, 8)])

    def checksum(self, memory: Memory, offset: int, size_bytes: int, salt: int, slot: int) -> None:
        """Add a 64-bit checksum of a range to the word at device address `slot`."""
        blocks = max(1, min(self._multiprocessors * 4, size_bytes // (8 * THREADS)))
        values = [(memory.address + offset, 8), (size_bytes, 8), (salt, 8), (slot, 8)]
        self._run("kc_checksum", blocks, values)

    def free_bytes(self) -> int:
        """Bytes of GPU memory that are currently free."""
        free, _ = call(cu.cuMemGetInfo())
        return int(free)

    def words(self, size_bytes: int) -> Memory:
        """Our own memory for results, reused while it is large enough."""
        if self._words is None or self._words.size_bytes < size_bytes:
            self._words = self.device.allocate(max(1024, 2 * size_bytes))
        return self._words

    def reset_persisting(self) -> None:
        """Reset persisting L2 lines to normal (if the GPU supports them)."""
        cu.cuCtxResetPersistingL2Cache()

    def event(self) -> Any:
        """A new timing event."""
        return call(cu.cuEventCreate(0))

    def drop_event(self, event: Any) -> None:
        """Destroy an event."""
        call(cu.cuEventDestroy(event))

    def record(self, event: Any) -> None:
        """Record the event in the stream, after the work queued so far."""
        call(cu.cuEventRecord(event, self.device.stream))

    def elapsed_us(self, start: Any, end: Any) -> float:
        """Microseconds between two recorded events (synchronize the stream first)."""
        return float(call(cu.cuEventElapsedTime(start, end))) * 1000.0

    def _set_gate(self, value: int) -> None:
        ctypes.c_uint32.from_address(self._gate_host).value = value

    def close_gate(self) -> None:
        """Hold back later work until `open_gate`, so that all of it is queued before it starts."""
        self._gate_value += 1
        call(cu.cuStreamWaitValue32(self.device.stream, self._gate_device, self._gate_value, WAIT_GEQ))

    def open_gate(self) -> None:
        """Release the held work."""
        self._set_gate(self._gate_value)

    def span(self, events: tuple[Any, Any], work: Callable[[], None], *, gated: bool = True) -> None:
        """Queue `work` between two events, held back until all of it is queued.

        Earlier work runs meanwhile. `work` must fit in the driver's queue (about a thousand launches,
        MAX_GATED for safety): with the gate closed, a full queue would deadlock.
        """
        if gated:
            self.close_gate()
        try:
            self.record(events[0])
            work()
            self.record(events[1])
        finally:
            if gated:
                self.open_gate()

    def capture(self, work: Callable[[], None]) -> Graph | None:
        """Record the work queued by `work` as a graph; None if it has to wait for the device.

        Raises:
            KernelFault: a launch in it is rejected.
        """
        stream = self.device.stream
        call(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
        try:
            work()
        except NotCapturable:
            cu.cuStreamEndCapture(stream)
            return None
        error, graph = cu.cuStreamEndCapture(stream)
        if int(error):
            return None
        count = int(call(cu.cuGraphGetNodes(graph, 0))[1])
        return Graph(self.device, call(cu.cuGraphInstantiate(graph, 0)), graph, count)


class Graph:
    """Recorded work that a single call queues again."""

    def __init__(self, device: CudaDevice, handle: Any, graph: Any, nodes: int) -> None:
        self._device = device
        self._handle = handle
        self._graph = graph
        self.nodes = nodes
        if nodes:
            call(cu.cuGraphUpload(handle, device.stream))

    def launch(self) -> None:
        """Queue the graph."""
        call(cu.cuGraphLaunch(self._handle, self._device.stream))

    def close(self) -> None:
        """Destroy the graph."""
        call(cu.cuGraphExecDestroy(self._handle))
        call(cu.cuGraphDestroy(self._graph))
