"""Timing on a GPU: events, graphs, a gate that holds back work, cache flushes.

Only our own kernels are launched here (`kcurate.backends.cuda.helpers`). Every method queues work on the
device's stream, unless its docstring says that it waits. Not covered: contents of memory
(`kcurate.backends.cuda.arrays`), the timing protocol (`kcurate.judge.timing.blocks`).
"""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cu

from kcurate.backends.base import Compiled, Memory
from kcurate.backends.cuda.arrays import THREADS, DeviceArrays
from kcurate.backends.cuda.device import CudaDevice
from kcurate.backends.cuda.driver import NotCapturable, attribute, call
from kcurate.backends.cuda.helpers import LOCAL_FRAMES

# The cache is flushed by reading this multiple of its size.
FLUSH_FACTOR = 2.5
# Launches that are queued behind a closed gate; a full queue (about a thousand) would deadlock.
MAX_GATED = 400
# CU_STREAM_WAIT_VALUE_GEQ.
WAIT_GEQ = 0


class GpuTimer(DeviceArrays):
    """Timing primitives of one device. `helpers` is `helpers.SOURCE` compiled for it."""

    device: CudaDevice

    def __init__(self, device: CudaDevice, helpers: Compiled) -> None:
        super().__init__(device, device.load(helpers), attribute(device.handle, "MULTIPROCESSOR_COUNT"))
        self.l2_bytes = attribute(device.handle, "L2_CACHE_SIZE")
        self._shared_bytes = attribute(device.handle, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self.flush_bytes = (int(self.l2_bytes * FLUSH_FACTOR) + 4095) // 4096 * 4096
        self.scratch = device.allocate(self.flush_bytes)
        self._sink = device.allocate(256)
        self._gate_host = int(call(cu.cuMemHostAlloc(256, 2)))  # mapped; contains only the gate
        self._gate_device = int(call(cu.cuMemHostGetDevicePointer(self._gate_host, 0)))
        self._gate_value = 0
        self._set_gate(0)

    def clear(self) -> None:
        """See `DeviceArrays.clear`."""
        super().clear()
        for memory in (self.scratch, self._sink):
            self.device.fill(memory, 0, memory.size_bytes, b"\0")

    def flush(self) -> None:
        """Evict the L2 cache with reads, which leave only clean lines in it."""
        count = self.flush_bytes // 16
        values = [(self.scratch.address, 8), (count, 8), (self._sink.address, 8)]
        self._run("kc_read", self._multiprocessors * 4, values)

    def scrub(self, local_bytes: int) -> None:
        """Overwrite the shared memory of every multiprocessor, and local memory if a side uses any.

        `local_bytes`: the largest frame of the side's kernels; beyond 64 KiB per thread it is not
        overwritten.
        """
        salt, words = secrets.randbits(64), self._shared_bytes // 8
        values = [(salt, 8), (words, 4), (self._sink.address, 8)]
        self._run("kc_scrub", self._multiprocessors, values, 1024, self._shared_bytes)
        if local_bytes:
            frame = min(frame for frame in LOCAL_FRAMES if frame >= min(local_bytes, max(LOCAL_FRAMES)))
            for name in LOCAL_FRAMES[frame]:
                self._run(name, self._multiprocessors * 4, [(salt, 8), (self._sink.address, 8)])

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
        """Queue `work` between two events, held back until all of it is queued; earlier work runs meanwhile.

        `work` may have `MAX_GATED` launches.
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
        """Record the work queued by `work` as a graph; None if `work` waits for the device.

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
