"""The judge's whole timed path in one process: emulated memory and kernels on a simulated clock.

`Recorder` is the emulator's device with graph capture. `Clock` replaces the CUDA backend's `GpuTimer`: each
launch takes the time that the test gives its side.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kcurate import codec
from kcurate.backends.base import EntryPoint, Grid, KernelArg, KernelFault, Memory, Module
from kcurate.backends.cuda.driver import NotCapturable
from kcurate.backends.cuda.helpers import MAX_RANK
from kcurate.backends.cuda.timer import Region
from kcurate.backends.emulator.device import EmulatorDevice
from kcurate.backends.noise import HostNoise
from kcurate.errors import ProblemError
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.timing.calibration import Calibration
from kcurate.judge.workers.inside import arena
from kcurate.judge.workers.inside.side_server import SideServer
from kcurate.judge.workers.messages import Reply, Request, pack_request, read_answer, read_request
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.problem.compare import Bound
from kcurate.problem.dtypes import numpy_dtype
from kcurate.records import Candidate
from kcurate.records.pair import SideName

EVENT_US = 3.0


# NumPy fills the arena before every sample.
arena.LEAST_GAP_BYTES = 1 << 14


class Recorder(EmulatorDevice):
    """An emulated device with graph capture; a launch does nothing if `skip` returns True for its number."""

    def __init__(self, launch_us: Callable[[], float], skip: Callable[[int], bool]) -> None:
        super().__init__()
        self.launch_us, self.skip = launch_us, skip
        self.now_us = 0.0
        self.launches = 0
        self.tape: list[Callable[[], None]] | None = None

    def do(self, work: Callable[[], None]) -> None:
        if self.tape is None:
            work()
        else:
            self.tape.append(work)

    def reset_globals(self, module: Module) -> None:
        self.do(lambda: EmulatorDevice.reset_globals(self, module))

    def fill(self, memory: Memory, offset_bytes: int, size_bytes: int, pattern: bytes) -> None:
        self.do(lambda: EmulatorDevice.fill(self, memory, offset_bytes, size_bytes, pattern))

    def copy(self, to: Memory, to_offset: int, source: Memory, offset: int, size_bytes: int) -> None:
        self.do(lambda: EmulatorDevice.copy(self, to, to_offset, source, offset, size_bytes))

    def upload(self, *args: Any) -> None:
        self.do(lambda: EmulatorDevice.upload(self, *args))

    def bind_texture(self, *args: Any) -> None:
        self.do(lambda: EmulatorDevice.bind_texture(self, *args))

    def read(self, memory: Memory, offset_bytes: int, size_bytes: int) -> Any:
        if self.tape is not None:
            raise NotCapturable("a read waits for the device")
        return super().read(memory, offset_bytes, size_bytes)

    def launch(self, module: Module, entry: EntryPoint, grid: Grid, args: Sequence[KernelArg]) -> None:
        def work() -> None:
            self.launches += 1
            self.now_us += self.launch_us()
            if not self.skip(self.launches):
                EmulatorDevice.launch(self, module, entry, grid, args)

        self.do(work)


@dataclass
class Tape:
    """A captured graph."""

    device: Recorder
    work: list[Callable[[], None]]

    @property
    def nodes(self) -> int:
        return len(self.work)

    def launch(self) -> None:
        for one in self.work:
            one()

    def close(self) -> None:
        self.work = []


class Clock(HostNoise):
    """Timing primitives on the device's simulated clock; checks of outputs in NumPy."""

    l2_bytes = 1 << 20

    def __init__(self, device: Recorder) -> None:
        super().__init__(device)
        self.device = device
        self.scratch = device.allocate(4096)
        self.word = device.allocate(256)
        device.fill(self.scratch, 0, 4096, b"\x5a")

    def flush(self) -> None:
        self.device.do(lambda: None)

    def scrub(self, local_bytes: int) -> None:
        pass

    def _read(self, address: int, size_bytes: int) -> Any:
        return EmulatorDevice.read(self.device, Memory(address, size_bytes), 0, size_bytes)

    def checksum(self, memory: Memory, offset: int, size_bytes: int, salt: int, slot: int) -> None:
        self._add(slot, self._read(memory.address + offset, size_bytes), salt)

    def _add(self, slot: int, data: Any, salt: int) -> None:
        before = int(self._read(slot, 8).view(np.uint64)[0])
        after = (before + zlib.crc32(np.ascontiguousarray(data).tobytes(), salt & 0xFFFFFFFF)) & (2**64 - 1)
        self.device.fill(Memory(slot, 8), 0, 8, after.to_bytes(8, "little"))

    def fingerprint(self, region: Region, salt: int, slot: int) -> None:
        elements = self._elements(region).view(f"u{region.itemsize}")
        self._add(slot, elements if region.ordered else np.sort(elements), salt)

    def _elements(self, region: Region) -> Any:
        """The elements that count, as `kc_fingerprint` finds them."""
        count = region.count
        if region.counted_by is not None:
            address, size, signed = region.counted_by
            held = int.from_bytes(self._read(address, size).tobytes(), "little", signed=signed)
            count = max(0, min(count, held))
        at = np.arange(count) * region.itemsize
        if region.layout:
            rank, base = region.layout[:2]
            extents, strides = region.layout[2 : 2 + rank], region.layout[2 + MAX_RANK : 2 + MAX_RANK + rank]
            index = np.unravel_index(np.arange(count), extents)
            at = base + sum(one * stride for one, stride in zip(index, strides, strict=True))
        start = region.memory.address + region.offset_bytes
        data = self._read(start, region.memory.size_bytes - region.offset_bytes)
        picked = data[at[:, None] + np.arange(region.itemsize)]
        return np.ascontiguousarray(picked).reshape(-1).view(numpy_dtype(region.dtype))

    def hidden(self, data: Any, salt: int) -> Any:
        return data ^ np.uint8(salt & 0xFF)

    def close(self, region: Region, expected: Memory, bound: Bound, salt: int, found: int) -> None:
        raw = self.hidden(self._read(expected.address, expected.size_bytes), salt)
        got = self._elements(region).astype(np.float64)
        wanted = raw.view(numpy_dtype(region.dtype))[: got.size].astype(np.float64)
        wrong = int((~(np.abs(got - wanted) <= bound.of(np.abs(wanted)))).sum())
        data = np.frombuffer(struct.pack("<Qd", wrong, float(((got - wanted) ** 2).sum())), np.uint8)
        self.device.write(Memory(found, 16), 0, data)

    def reset_persisting(self) -> None:
        pass

    def event(self) -> list[float]:
        return [0.0]

    def drop_event(self, event: list[float]) -> None:
        event.clear()

    def elapsed_us(self, start: list[float], end: list[float]) -> float:
        return end[0] - start[0] + EVENT_US

    def span(
        self, events: tuple[list[float], list[float]], work: Callable[[], None], *, gated: bool = True
    ) -> None:
        events[0][0] = self.device.now_us
        work()
        events[1][0] = self.device.now_us

    def capture(self, work: Callable[[], None]) -> Tape | None:
        self.device.tape = []
        try:
            work()
            return Tape(self.device, self.device.tape)
        except NotCapturable:
            return None
        finally:
            self.device.tape = None


@dataclass
class LocalWorker:
    """A run worker in this process."""

    server: SideServer
    alive: bool = True
    answers: list[Reply[Any] | Exception] = field(default_factory=list)

    @property
    def pending(self) -> int:
        return len(self.answers)

    def ask(self, request: Request[Any], blobs: Mapping[str, Any] | None = None) -> None:
        """As `Worker.ask`; requests and answers pass through JSON."""
        asked = json.loads(json.dumps(pack_request(request)))
        try:
            made = self.server.handle(read_request(asked), blobs or {})
            answer = json.loads(json.dumps(codec.to_data(made.body)))
            self.answers.append(Reply(read_answer(type(request), answer), made.blobs))
        except (KernelFault, ProblemError) as error:
            self.answers.append(error)

    def answer(self, timeout_s: float, max_blob_bytes: int = 0) -> Reply[Any]:
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        assert sum(blob.nbytes for blob in found.blobs.values()) <= max_blob_bytes or not found.blobs
        return found

    def call(self, request: Request[Any], blobs: Any = None, *, timeout_s: float) -> Reply[Any]:
        self.ask(request, blobs)
        return self.answer(timeout_s, 1 << 40)

    def kill(self) -> None:
        self.alive = False


class TimedJudge(Judge):
    """A judge with timing. `us`: the duration of each side's launches. `skip`: which launches do nothing."""

    def __init__(self) -> None:
        super().__init__(JudgeConfig("emulator", spares=1))
        self.config = replace(self.config, backend="cuda")
        self.pool._kept = 2
        self.pool.fresh = self._local_proxy  # type: ignore[method-assign]
        self.pool.load_helpers = self._load_helpers  # type: ignore[method-assign]
        self.pool.compile_helpers = lambda _: None  # type: ignore[method-assign]
        self.bandwidth = 1e12
        self.us: Mapping[SideName, float] = {}
        self.skip: Callable[[SideName, int], bool] = lambda side, number: False
        self.devices: dict[SideName, Recorder] = {}
        self._latest: dict[SideName, Recorder] = {}
        self._take, self.pool.take = self.pool.take, self._taken  # type: ignore[method-assign]

    def _taken(self, candidate: Candidate, reference: SideName) -> dict[SideName, SideProxy]:
        """The sides' own workers; `devices` does not follow further runs of the reference."""
        self._latest.clear()
        sides = self._take(candidate, reference)
        self.devices |= self._latest
        return sides

    def calibrate(self) -> Calibration:
        return Calibration(self.bandwidth, EVENT_US, EVENT_US, source="measured")

    def _local_proxy(self, side: SideName, *, primed: bool = False) -> SideProxy:
        device = Recorder(lambda: self.us[side], lambda number: self.skip(side, number))
        self._latest[side] = device
        return SideProxy(side, LocalWorker(SideServer(device)), 60.0)  # type: ignore[arg-type]

    def _prime(self, *_: object) -> None:
        """Workers in this process need no prefetching."""

    def _load_helpers(self, proxy: SideProxy) -> None:
        server = proxy.worker.server  # type: ignore[attr-defined]
        server._salt = 77
        server._timer = server._timer or Clock(server._device)
