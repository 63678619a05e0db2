"""The worker's end of one side: load it, generate inputs, run it, send outputs.

Trusted code in a process that also holds a candidate's code; it makes no pass/fail decision. Outputs go to
the parent as raw bytes; at the bench size they stay on the device. Not covered: the process
(`kcurate.judge.workers.inside.main`), redzones and poison (`kcurate.judge.workers.inside.execute`), runs at
the bench size (`kcurate.judge.workers.inside.bench_slots`).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kcurate.backends.base import Device, Module
from kcurate.backends.torch_module import TorchModule
from kcurate.errors import BackendError
from kcurate.judge.workers.inside.execute import STARTS, Array, DeviceProgram, Start, flat
from kcurate.judge.workers.messages import unpack_compiled
from kcurate.judge.workers.protocol import Blob
from kcurate.judge.workers.requests import (
    AskEnvironment,
    Bring,
    Compare,
    Count,
    CountsAnswer,
    DeviceState,
    Done,
    Drop,
    Expect,
    Fetch,
    Forget,
    Generate,
    Hide,
    Load,
    Peek,
    ReadOutputs,
    Reply,
    Request,
    Run,
    RunAnswer,
    Text,
)
from kcurate.judge.workers.timing_requests import (
    Block,
    Calibrate,
    ClockAnswer,
    Helpers,
    Time,
    TimeAnswer,
)
from kcurate.problem.bind_once import bind_once
from kcurate.problem.inputs import contents
from kcurate.problem.inputs.counter_based import Recipe
from kcurate.problem.inputs.planted import exchange_few
from kcurate.problem.inputs.spoiled import Spoiled
from kcurate.problem.ops import Program
from kcurate.records import Problem, Side

if TYPE_CHECKING:
    from kcurate.backends.cuda.timer import GpuTimer
    from kcurate.backends.emulator.device import EmulatorDevice
    from kcurate.judge.workers.inside.bench_slots import BenchSlots

A = TypeVar("A")
DONE: Reply[Done] = Reply(Done())
# Requests about the slots of a bench size, and the methods of `BenchSlots` that answer them.
ON_DEVICE: Mapping[type[Request[Any]], str] = {
    Hide: "hide",
    Bring: "bring",
    Fetch: "fetch",
    Expect: "expect",
    Compare: "compare",
    Peek: "peek",
    ReadOutputs: "read_outputs",
    Forget: "forget",
    Block: "block",
}


@dataclass(frozen=True)
class _Inputs:
    """One trial's inputs: as arrays, or for a run on the device as recipes, and how they are spoiled."""

    program: Program
    made: Mapping[str, Array | Recipe]
    spoiled: Spoiled = field(default_factory=Spoiled)

    @property
    def arrays(self) -> dict[str, Array]:
        """The values, which were made on the host."""
        return {name: content for name, content in self.made.items() if not isinstance(content, Recipe)}


class SideServer:
    """One side on one device, with one method per type of request. `tight`: buffers have no redzones.

    After a `KernelFault` the process must exit.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._modules: dict[Text, Module] = {}
        self._loaded: tuple[Problem, Side] | None = None
        self._latest: tuple[Problem, Side] | None = None
        self._inputs: dict[str, _Inputs] = {}
        self._timer: GpuTimer | None = None
        self._slots: BenchSlots | None = None
        self.tight = False
        self.methods: Mapping[type[Request[Any]], Callable[[Any, Mapping[str, Blob]], Reply[Any]]] = {
            AskEnvironment: self._environment,
            Load: self._load,
            Generate: self._generate,
            Run: self._run,
            Count: self._count,
            Drop: self._drop,
            Helpers: self._helpers,
            Time: self._time,
            Calibrate: self._calibrate,
        }

    def handle(self, request: Request[A], blobs: Mapping[str, Blob]) -> Reply[A]:
        """Answer one request.

        Raises:
            KernelFault: the side's code failed.
        """
        method = self.methods.get(type(request)) or getattr(self._bench(), ON_DEVICE[type(request)])
        answer: Reply[A] = method(request, blobs)
        return answer

    def _bench(self) -> BenchSlots:
        assert self._slots is not None, "helpers come first"
        return self._slots

    def _environment(self, request: AskEnvironment, _: Mapping[str, Blob]) -> Reply[DeviceState]:
        return Reply(DeviceState(self._device.environment()))

    def _load(self, request: Load, blobs: Mapping[str, Blob]) -> Reply[Done]:
        compiled = unpack_compiled(request.compiled, blobs)
        python = request.side.language == "torch"
        self._modules[request.text] = TorchModule(compiled) if python else self._device.load(compiled)
        self._loaded = self._same(request.problem, request.side)
        return DONE

    def _generate(self, request: Generate, _: Mapping[str, Blob]) -> Reply[Done]:
        if request.problem is not None and request.side is not None:
            problem, side = self._same(request.problem, request.side)
        else:
            problem, side = self._known()
        bound = bind_once(problem, side, request.sizes)
        recipe = (problem, side, request.sizes, request.seed, request.variation)
        if request.on_device:
            self._inputs[request.slot] = _Inputs(bound, *contents.recipes(*recipe))
        else:
            self._inputs[request.slot] = _Inputs(bound, contents.generate(*recipe))
        return DONE

    def _run(self, request: Run, _: Mapping[str, Blob]) -> Reply[RunAnswer]:
        if request.fingerprint is not None:
            if request.slot in self._inputs:
                inputs = self._inputs.pop(request.slot)
                self._bench().fill(request.slot, inputs.program, inputs.made, inputs.spoiled)
            return self._bench().run(request, self._module(request.text), *self._known())
        damage: list[str] = []
        blobs: dict[str, Blob] = {}
        places = self._places(request)
        prepared: DeviceProgram | None = None
        for index, salt in enumerate(request.salts):
            start = STARTS[0] if request.orders else STARTS[index % len(STARTS)]
            if prepared is None or start != "kept":
                prepared = next(places)
            else:
                self._run_others(request, prepared, salt)
            prepared.reset(salt, start)
            if request.orders:
                self._emulator().schedule(self._module(request.text), request.orders[index], request.room)
            prepared.run()
            prepared.finish()
            damage += prepared.integrity()
            blobs |= {f"{index}/{name}": flat(array) for name, array in prepared.outputs().items()}
        places.close()
        return Reply(RunAnswer(tuple(damage)), blobs)

    def _run_others(self, request: Run, prepared: DeviceProgram, salt: int) -> None:
        """Run on an earlier trial's inputs, if one had the same sizes, and on the slot's own with a few
        elements changed, so that what is kept is of no use, however a side recognises inputs."""
        inputs, rng = self._inputs[request.slot], np.random.default_rng(salt)
        same = (other for slot, other in self._inputs.items() if slot != request.slot)
        others = [other.arrays for other in same if other.program.sizes == inputs.program.sizes][:1]
        few = {
            name: exchange_few(values, rng)
            for name, values in inputs.arrays.items()
            if contents.exchangeable(inputs.program.buffers[name].record)
        }
        start: Start = "noise"
        for arrays in (*others, *([{**inputs.arrays, **few}] if few else [])):
            prepared.set_values(arrays)
            prepared.reset(salt, start)
            prepared.run()
            start = "kept"
        prepared.set_values(inputs.arrays)

    def _places(self, request: Run) -> Generator[DeviceProgram]:
        """The slot's program again and again, each time at another place; closes the last one."""
        inputs, module = self._inputs[request.slot], self._module(request.text)
        emulated = self._device.name == "emulator"
        first = self.tight or (emulated and request.text == "turns")  # whose accesses end where a buffer does
        for tight in itertools.cycle((first, self.tight or emulated)):
            prepared = DeviceProgram(
                self._device, module, inputs.program, inputs.arrays, self._timer, tight=tight
            )
            try:
                yield prepared
            finally:
                prepared.close()

    def _emulator(self) -> EmulatorDevice:
        from kcurate.backends.emulator.device import EmulatorDevice

        assert isinstance(self._device, EmulatorDevice), "only the emulator counts, or chooses an order"
        return self._device

    def _count(self, request: Count, _: Mapping[str, Blob]) -> Reply[CountsAnswer]:
        device = self._emulator()
        module, inputs = self._module("own"), self._inputs[request.slot]
        device.counts(module, request.sample, request.seed, request.ablated)
        prepared = DeviceProgram(self._device, module, inputs.program, inputs.arrays)
        try:
            prepared.reset(request.seed, "noise" if request.outputs and not request.sample else "zeros")
            for slot in prepared.slots.values() if request.sample else ():
                if slot.image is None:  # all zeros, so that outputs of runs of a few blocks can be compared
                    self._device.fill(slot.memory, slot.content_offset, slot.buffer.size_bytes, b"\0")
            slots = prepared.slots if request.follow else {}
            places = [
                (slot.memory.address + slot.content_offset, slot.buffer.size_bytes) for slot in slots.values()
            ]
            device.follow(module, places)
            prepared.run()
            reached = dict(zip(slots, device.reached(module), strict=True))
            outputs = (
                {name: flat(array) for name, array in prepared.outputs().items()} if request.outputs else {}
            )
        finally:
            prepared.close()
        digest = hashlib.sha256(b"".join(hashlib.sha256(array.data).digest() for array in outputs.values()))
        counts = device.counts(module)
        answer = CountsAnswer(counts, reached, digest.hexdigest(), device.agreeing(module))
        return Reply(answer, {} if request.sample else outputs)

    def _drop(self, request: Drop, _: Mapping[str, Blob]) -> Reply[Done]:
        if self._slots is not None:
            self._slots.drop()
        self._inputs.clear()
        if request.unload:
            self._unload()
        return DONE

    def _unload(self) -> None:
        """Leave no code or variables of the side, nor anything in memory that the next could read."""
        from kcurate.backends.cuda.device import CudaDevice

        assert isinstance(self._device, CudaDevice) and self._timer is not None, "only a GPU's are used again"
        local_bytes = max((module.compiled.local_bytes for module in self._modules.values()), default=0)
        for module in self._modules.values():
            self._device.unload(module)
        self._modules.clear()
        self._loaded = self._latest = None
        self._timer.reset_persisting()
        self._timer.clear()
        self._timer.scrub(local_bytes)
        self._device.synchronize()

    def _same(self, problem: Problem, side: Side) -> tuple[Problem, Side]:
        """The records of the last request, if these are equal, so that a plan is bound once."""
        if self._latest != (problem, side):
            self._latest = (problem, side)
        assert self._latest is not None, "set above"
        return self._latest

    def _known(self) -> tuple[Problem, Side]:
        if self._loaded is None:
            raise BackendError("a run was requested before a side was loaded")
        return self._loaded

    def _module(self, text: Text) -> Module:
        self._known()
        return self._modules[text]

    def _helpers(self, request: Helpers, blobs: Mapping[str, Blob]) -> Reply[Done]:
        from kcurate.backends.cuda.device import CudaDevice
        from kcurate.backends.cuda.timer import GpuTimer

        assert isinstance(self._device, CudaDevice), "only a GPU is timed"
        if self._timer is None:
            self.use(GpuTimer(self._device, unpack_compiled(request.compiled, blobs)))
        return DONE

    def use(self, timer: GpuTimer) -> None:
        """Run bench sizes with this timer."""
        from kcurate.judge.workers.inside.bench_slots import BenchSlots

        self._timer, self._slots = timer, BenchSlots(timer)

    def _time(self, request: Time, _: Mapping[str, Blob]) -> Reply[TimeAnswer]:
        return self._bench().time(request, self._module("own"))

    def _calibrate(self, request: Calibrate, _: Mapping[str, Blob]) -> Reply[ClockAnswer]:
        from kcurate.backends.cuda import clock

        assert self._timer is not None, "helpers come first"
        return Reply(ClockAnswer(**clock.read(self._timer)))
