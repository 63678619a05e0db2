"""The judge's whole timed path in one process: emulated memory and kernels on a simulated clock.

`Recorder` is the emulator's device with graph capture. `Clock` replaces the CUDA backend's `GpuTimer`: each
launch takes the time that the test gives its side.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from kcurate.backends.base import (
    Compiled,
    EntryPoint,
    Grid,
    KernelArg,
    KernelFault,
    Memory,
    Module,
    ScalarValue,
)
from kcurate.backends.cuda import helpers
from kcurate.backends.cuda.arrays import DeviceArrays
from kcurate.backends.cuda.driver import NotCapturable
from kcurate.backends.emulator.device import EmulatorDevice
from kcurate.core import codec
from kcurate.errors import ProblemError
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.timing import blocks
from kcurate.judge.timing.calibration import Calibration
from kcurate.judge.workers.inside import arena
from kcurate.judge.workers.inside.side_server import SideServer
from kcurate.judge.workers.messages import pack_request, read_answer, read_request
from kcurate.judge.workers.requests import Reply, Request
from kcurate.judge.workers.side_proxy import SideProxy
from kcurate.records import Candidate
from kcurate.records.pair import SideName
from tests.emulation import compile_side

EVENT_US = 3.0
# What is done before a sample, outside the measured span.
RESTORE_US = 200.0


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

    def shrink(self) -> None:
        """Nothing is kept."""

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


@lru_cache(maxsize=1)
def helper_kernels() -> Compiled:
    return compile_side(helpers.SOURCE, helpers.ENTRIES)


class Clock(DeviceArrays):
    """Timing primitives on a simulated clock; our own kernels run on the emulator and take no time."""

    l2_bytes = 1 << 20

    def __init__(self, device: Recorder) -> None:
        super().__init__(device, EmulatorDevice.load(device, helper_kernels()), 1)

    def _run(self, name: str, blocks: int, values: Any, threads: int = 32, shared_bytes: int = 0) -> None:
        args = [ScalarValue(value.to_bytes(size, "little")) for value, size in values]
        grid = Grid((1, 1, 1), (32, 1, 1), shared_bytes)
        EmulatorDevice.launch(self.device, self._module, EntryPoint(name), grid, args)  # type: ignore[arg-type]

    def flush(self) -> None:
        self.device.now_us += RESTORE_US  # type: ignore[attr-defined]

    def scrub(self, local_bytes: int) -> None:
        pass

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
    helped: bool = False
    used: bool = False
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
        self._recorders: list[Recorder] = []
        blocks.wall_clock = lambda: 1e-6 * sum(one.now_us for one in self._recorders)
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

    def close(self) -> None:
        blocks.wall_clock = time.perf_counter
        super().close()

    def calibrate(self) -> Calibration:
        return Calibration(self.bandwidth, EVENT_US, EVENT_US, source="measured")

    def _local_proxy(self, side: SideName, *, primed: bool = False, unused: bool = True) -> SideProxy:
        device = Recorder(lambda: self.us[side], lambda number: self.skip(side, number))
        self._latest[side] = device
        self._recorders.append(device)
        return SideProxy(side, LocalWorker(SideServer(device)), 60.0)  # type: ignore[arg-type]

    def _prime(self, *_: object) -> None:
        """Workers in this process need no prefetching."""

    def _load_helpers(self, proxy: SideProxy) -> None:
        server = proxy.worker.server  # type: ignore[attr-defined]
        if server._timer is None:
            server.use(Clock(server._device))
