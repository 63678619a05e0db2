"""Timing primitives of a GPU beyond `Device`: events, graphs, a gate, a clean state, checks of outputs.

Only our own kernels run here (`kcurate.backends.cuda.helpers`). Every method queues work on the device's
stream, unless it says that it waits. Not covered: the timing protocol (`kcurate.judge.timing.blocks`).
"""

from __future__ import annotations

import ctypes
import secrets
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cuda.bindings import driver as cu

from kcurate.backends.base import Bytes, Compiled, EntryPoint, Memory, ScalarValue
from kcurate.backends.cuda.device import CudaDevice
from kcurate.backends.cuda.driver import NotCapturable, attribute, call
from kcurate.backends.cuda.helpers import LOCAL_FRAMES, MAX_RANK
from kcurate.backends.noise import noise_bytes
from kcurate.problem.compare import Bound

# The cache is flushed by reading this multiple of its size.
FLUSH_FACTOR = 2.5
THREADS = 512
MAX_GATED = 400
# The floating types of `kc_close`.
FLOAT_KINDS = {
    "float64": 0, "float32": 1, "float16": 2, "bfloat16": 3, "float8_e4m3": 4, "float8_e5m2": 5,
}  # fmt: skip
WAIT_GEQ = 0


@dataclass(frozen=True)
class Region:
    """The part of an allocation that holds one buffer's contents, and what of it counts.

    `layout`: rank, base, extents and strides of the logical array's axes, in bytes (empty: one element after
    the other). `counted_by`: the device address of the number of leading elements that count, its size in
    bytes, and whether it is signed. `ordered` False: the elements are a set.
    """

    memory: Memory
    offset_bytes: int
    count: int
    dtype: str
    itemsize: int
    layout: tuple[int, ...] = ()
    counted_by: tuple[int, int, bool] | None = None
    ordered: bool = True

    @property
    def size_bytes(self) -> int:
        """Bytes of the logical array."""
        return self.count * self.itemsize

    @property
    def plain(self) -> bool:
        """Whether every byte of the range counts, in order."""
        return not self.layout and self.counted_by is None and self.ordered


def _shape(region: Region) -> list[tuple[int, int]]:
    """The count's and the layout's parameters of `kc_fingerprint` and `kc_close`."""
    address, itemsize, signed = region.counted_by or (0, 0, False)
    layout = struct.pack(f"<{2 + 2 * MAX_RANK}Q", *(region.layout or (0,) * (2 + 2 * MAX_RANK)))
    return [(address, 8), (itemsize, 4), (signed, 4), (int.from_bytes(layout, "little"), len(layout))]


class GpuTimer:
    """Timing primitives of one device. `helpers` is `helpers.SOURCE` compiled for it."""

    def __init__(self, device: CudaDevice, helpers: Compiled) -> None:
        self.device = device
        self._module = device.load(helpers)
        self._multiprocessors = attribute(device.handle, "MULTIPROCESSOR_COUNT")
        self.l2_bytes = attribute(device.handle, "L2_CACHE_SIZE")
        self._shared_bytes = attribute(device.handle, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self._key = secrets.randbits(64)
        self.flush_bytes = (int(self.l2_bytes * FLUSH_FACTOR) + 4095) // 4096 * 4096
        self.scratch = device.allocate(self.flush_bytes)
        self._sink = device.allocate(256)
        self.word = device.allocate(256)
        device.fill(self.scratch, 0, self.flush_bytes, b"\x5a")
        self._gate_host = int(call(cu.cuMemHostAlloc(256, 2)))  # mapped; contains only the gate
        self._gate_device = int(call(cu.cuMemHostGetDevicePointer(self._gate_host, 0)))
        self._gate_value = 0
        self._set_gate(0)

    def _run(
        self,
        name: str,
        blocks: int,
        values: Sequence[tuple[int, int]],
        threads: int = THREADS,
        shared_bytes: int = 0,
    ) -> None:
        """Launch a helper kernel; `values` are (value, size in bytes) of its parameters."""
        function = self._module.function(EntryPoint(name))
        args = [ScalarValue(value.to_bytes(size, "little")) for value, size in values]
        pointers, _storage = function.pack(args)
        extent = (blocks, 1, 1, threads, 1, 1, shared_bytes, self.device.stream, pointers.ctypes.data)
        call(cu.cuLaunchKernel(function.handle, *extent, 0))

    def flush(self) -> None:
        """Evict the L2 cache by reads, which leave only clean lines in it."""
        count = self.flush_bytes // 16
        values = [(self.scratch.address, 8), (count, 8), (self._sink.address, 8)]
        self._run("kc_read", self._multiprocessors * 4, values)

    def scrub(self, local_bytes: int) -> None:
        """Overwrite the shared memory of every multiprocessor, and local memory where a side has any.

        `local_bytes`: the largest frame of the side's kernels; more than 64 KiB per thread are not covered.
        """
        salt, words = secrets.randbits(64), self._shared_bytes // 8
        self._module.function(EntryPoint("kc_scrub")).allow_shared(self._shared_bytes)
        values = [(salt, 8), (words, 4), (self._sink.address, 8)]
        self._run("kc_scrub", self._multiprocessors, values, 1024, self._shared_bytes)
        if local_bytes:
            frame = min(frame for frame in LOCAL_FRAMES if frame >= min(local_bytes, max(LOCAL_FRAMES)))
            for name in LOCAL_FRAMES[frame]:
                self._run(name, self._multiprocessors * 4, [(salt, 8), (self._sink.address, 8)])

    def noise(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> None:
        """Fill a range with noise."""
        if size_bytes > 0:
            self._run(
                "kc_noise", self._blocks(size_bytes), self._noise_range(memory, offset, size_bytes, salt)
            )

    def noise_changed(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> bool:
        """Whether a range no longer holds the noise of this salt; waits for it."""
        if size_bytes <= 0:
            return False
        values = [*self._noise_range(memory, offset, size_bytes, salt), (self.word.address, 8)]
        return self._counted("kc_noise_changed", size_bytes, values)

    def _noise_range(self, memory: Memory, offset: int, size_bytes: int, salt: int) -> list[tuple[int, int]]:
        begin = memory.address + offset
        return [(begin, 8), (begin + size_bytes, 8), (salt, 8), (self._key, 8)]

    def differs(self, one: Memory, at: int, other: Memory, other_at: int, size_bytes: int) -> bool:
        """Whether two ranges, which start at multiples of 8 bytes, hold different bytes; waits for it."""
        values = [
            (one.address + at, 8),
            (other.address + other_at, 8),
            (size_bytes, 8),
            (self.word.address, 8),
        ]
        return self._counted("kc_differs", size_bytes, values)

    def _counted(self, name: str, size_bytes: int, values: Sequence[tuple[int, int]]) -> bool:
        self.device.fill(self.word, 0, 8, b"\0")
        self._run(name, self._blocks(size_bytes), values)
        return bool(self.device.read(self.word, 0, 8).any())

    def _blocks(self, size_bytes: int) -> int:
        return max(1, min(self._multiprocessors * 4, size_bytes // (8 * THREADS)))

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
        values = [(memory.address + offset, 8), (size_bytes, 8), (salt, 8), (slot, 8)]
        self._run("kc_checksum", self._blocks(size_bytes), values)

    def fingerprint(self, region: Region, salt: int, slot: int) -> None:
        """Add a 64-bit fingerprint of an output's elements to the word at device address `slot`.

        Unordered regions have the same fingerprint in any order; elements past the count do not matter.
        """
        start = region.memory.address + region.offset_bytes
        if region.plain:
            return self.checksum(region.memory, region.offset_bytes, region.size_bytes, salt, slot)
        head = [
            (start, 8),
            (region.count, 8),
            (region.itemsize, 4),
            (region.ordered, 4),
            (salt, 8),
            (slot, 8),
        ]
        return self._run("kc_fingerprint", self._blocks(8 * region.count), [*head, *_shape(region)])

    def close(self, region: Region, expected: Memory, bound: Bound, salt: int, found: int) -> None:
        """Compare an output with `expected`, which lies hidden with `salt`.

        Adds the number of elements outside their bound to the word at device address `found`, and the squares
        of all differences to the float64 behind it.
        """
        kind = FLOAT_KINDS[region.dtype]
        head = [(region.memory.address + region.offset_bytes, 8), (region.count, 8), (region.itemsize, 4)]
        numbers = (bound.of_value, bound.of_scale, bound.scale)
        words = [(int.from_bytes(struct.pack("<d", number), "little"), 8) for number in numbers]
        hidden = [(expected.address, 8), (salt, 8), (self._key, 8)]
        values = [*head, (kind, 4), *hidden, *words, (found, 8), (found + 8, 8), *_shape(region)]
        self._run("kc_close", self._blocks(8 * region.count), values)

    def hidden(self, data: Bytes, salt: int) -> Bytes:
        """Host bytes as `close` expects them in memory."""
        return data ^ noise_bytes(0, data.size, salt, self._key)

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
