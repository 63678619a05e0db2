"""The worker's end of one side: load it, generate inputs, run it, send outputs, take samples.

Trusted code in a process that also holds a candidate's code; it makes no pass/fail decision. Outputs go to
the parent as raw bytes, or as checksums with a secret salt. Not covered: the process
(`kcurate.judge.workers.inside.main`), redzones and poison (`kcurate.judge.workers.inside.execute`), samples
(`kcurate.judge.workers.inside.sampler`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kcurate.backends.base import Device, Module
from kcurate.backends.torch_module import TorchModule
from kcurate.errors import BackendError
from kcurate.judge.workers.inside.execute import Prepared, Start
from kcurate.judge.workers.messages import (
    AskEnvironment,
    Block,
    BlockAnswer,
    Calibrate,
    ClockAnswer,
    Count,
    CountsAnswer,
    DeviceState,
    Done,
    Drop,
    Generate,
    Helpers,
    Load,
    Reply,
    Request,
    Run,
    RunAnswer,
    Time,
    TimeAnswer,
    Witness,
    WitnessAnswer,
    unpack_compiled,
)
from kcurate.judge.workers.protocol import Blob
from kcurate.problem import program
from kcurate.problem.inputs import contents
from kcurate.problem.program import Program
from kcurate.records import Problem, Side

if TYPE_CHECKING:
    from kcurate.backends.cuda.timer import GpuTimer
    from kcurate.judge.workers.inside.arena import Arena
    from kcurate.judge.workers.inside.input_sets import InputSet
    from kcurate.judge.workers.inside.sampler import DeviceSampler

A = TypeVar("A")
DONE: Reply[Done] = Reply(Done())
# How outputs and scratch start in the runs of a trial. The last two runs share their memory.
STARTS: tuple[Start, ...] = ("noise", "zeros", "kept")


class SideServer:
    """One side on one device, with one method per type of request. `tight`: buffers have no redzones.

    After a `KernelFault` the process must exit.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._loaded: tuple[Module, Problem, Side] | None = None
        self._inputs: dict[str, tuple[Program, dict[str, Any]]] = {}
        self._kept: dict[str, InputSet] = {}
        self._arena: Arena | None = None
        self._timer: GpuTimer | None = None
        self._salt = 0
        self._timed: DeviceSampler | None = None
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
            Block: self._block,
            Witness: self._witness,
            Calibrate: self._calibrate,
        }

    def handle(self, request: Request[A], blobs: Mapping[str, Blob]) -> Reply[A]:
        """Answer one request.

        Raises:
            KernelFault: the side's code failed.
        """
        answer: Reply[A] = self.methods[type(request)](request, blobs)
        return answer

    def _environment(self, asked: AskEnvironment, _: Mapping[str, Blob]) -> Reply[DeviceState]:
        return Reply(DeviceState(self._device.environment()))

    def _load(self, asked: Load, blobs: Mapping[str, Blob]) -> Reply[Done]:
        compiled = unpack_compiled(asked.compiled, blobs)
        python = asked.side.language == "torch"
        module = TorchModule(compiled) if python else self._device.load(compiled)
        self._loaded = (module, asked.problem, asked.side)
        return DONE

    def _generate(self, asked: Generate, _: Mapping[str, Blob]) -> Reply[Done]:
        if asked.problem is not None and asked.side is not None:
            problem, side = asked.problem, asked.side
        else:
            _module, problem, side = self._known()
        bound = program.bind(problem, side, asked.sizes)
        values = contents.generate(problem, side, asked.sizes, asked.seed, asked.variation)
        self._inputs[asked.slot] = (bound, values)
        return DONE

    def _run(self, asked: Run, _: Mapping[str, Blob]) -> Reply[RunAnswer]:
        damage: list[str] = []
        sums: list[int] = []
        blobs: dict[str, Blob] = {}
        places = self._places(asked)
        prepared: Prepared | None = None
        for index, salt in enumerate(asked.salts):
            start = STARTS[index % len(STARTS)]
            if prepared is None or start != "kept":
                prepared = next(places)
            prepared.reset(salt, start)
            prepared.run()
            prepared.finish()
            self._device.synchronize()
            damage += prepared.integrity()
            sums.append(self._sum(asked, prepared))
            blobs |= _blobs(prepared, f"{index}/", () if index == 0 else asked.summed)
        places.close()
        if asked.keep and self._arena is not None:
            self._arena.renew()  # the outputs must not be found again
        return Reply(RunAnswer(tuple(damage), tuple(sums)), blobs)

    def _places(self, asked: Run) -> Generator[Prepared]:
        """The slot's program again and again, each time at another place; closes the last one."""
        if asked.keep:
            kept = self._kept[asked.slot] = self._keep(asked.slot)
            while True:
                yield kept.place()
        bound, values = self._inputs.pop(asked.slot)
        for tight in itertools.cycle((self.tight, self.tight or self._device.name == "emulator")):
            prepared = Prepared(self._device, self._known()[0], bound, values, self._timer, tight=tight)
            try:
                yield prepared
            finally:
                prepared.close()

    def _keep(self, slot: str) -> InputSet:
        from kcurate.judge.workers.inside.arena import Arena
        from kcurate.judge.workers.inside.input_sets import InputSet

        assert self._timer is not None, "helpers come first"
        self._arena = self._arena or Arena(self._timer)
        bound, values = self._inputs.pop(slot)
        return InputSet(self._timer, self._known()[0], bound, values, self._arena)

    def _sum(self, asked: Run, prepared: Prepared) -> int:
        """One fingerprint of the `summed` outputs, as `DeviceSampler` takes it."""
        if not asked.summed:
            return 0
        from kcurate.judge.workers.inside.input_sets import add_fingerprint, sum_of

        timer = self._timer
        assert timer is not None, "helpers come first"
        return sum_of(timer, lambda word: add_fingerprint(timer, prepared, asked.summed, word, self._salt))

    def _count(self, asked: Count, _: Mapping[str, Blob]) -> Reply[CountsAnswer]:
        from kcurate.backends.emulator.device import EmulatorDevice

        assert isinstance(self._device, EmulatorDevice), "only the emulator counts"
        module = self._known()[0]
        bound, values = self._inputs.pop(asked.slot)
        self._device.counts(module, asked.sample, asked.seed)
        prepared = Prepared(self._device, module, bound, values)
        try:
            prepared.reset(asked.seed, "zeros")
            prepared.run()
        finally:
            prepared.close()
        return Reply(CountsAnswer(self._device.counts(module)))

    def _drop(self, asked: Drop, _: Mapping[str, Blob]) -> Reply[Done]:
        if self._timed is not None:
            self._timed.close()
            self._timed = None
        for slot in list(self._kept):
            self._kept.pop(slot).close()
        if self._arena is not None:
            self._arena.close()
        self._inputs.clear()
        return DONE

    def _known(self) -> tuple[Module, Problem, Side]:
        if self._loaded is None:
            raise BackendError("a run was requested before a side was loaded")
        return self._loaded

    def _helpers(self, asked: Helpers, blobs: Mapping[str, Blob]) -> Reply[Done]:
        from kcurate.backends.cuda.device import CudaDevice
        from kcurate.backends.cuda.timer import GpuTimer

        assert isinstance(self._device, CudaDevice), "only a GPU is timed"
        self._salt = asked.salt
        if self._timer is None:
            self._timer = GpuTimer(self._device, unpack_compiled(asked.compiled, blobs))
        return DONE

    def _time(self, asked: Time, blobs: Mapping[str, Blob]) -> Reply[TimeAnswer]:
        from kcurate.judge.workers.inside.sampler import DeviceSampler

        assert self._timer is not None, "helpers come first"
        assert self._arena is not None, "inputs are kept first"
        chosen = [self._kept[slot] for slot in asked.slots]
        for slot, kept in zip(asked.slots, chosen, strict=True):
            for close in asked.close.get(slot, ()):
                kept.expect(close, blobs[f"{slot}/{close.name}"])
        frames = [one.local_bytes or 0 for one in self._known()[0].compiled.resources]
        self._timed = DeviceSampler(
            self._timer,
            self._arena,
            chosen,
            asked.summed,
            asked.whole,
            salt=self._salt,
            local_bytes=max(frames, default=0),
        )
        return Reply(self._timed.describe())

    def _block(self, asked: Block, _: Mapping[str, Blob]) -> Reply[BlockAnswer]:
        assert self._timed is not None, "time comes first"
        samples, outputs = self._timed.block(asked.samples, asked.first)
        return Reply(BlockAnswer(tuple(samples)), {name: _flat(array) for name, array in outputs.items()})

    def _witness(self, asked: Witness, _: Mapping[str, Blob]) -> Reply[WitnessAnswer]:
        assert self._timed is not None, "time comes first"
        return Reply(WitnessAnswer(self._timed.witness()))

    def _calibrate(self, asked: Calibrate, _: Mapping[str, Blob]) -> Reply[ClockAnswer]:
        from kcurate.backends.cuda import clock

        assert self._timer is not None, "helpers come first"
        return Reply(ClockAnswer(**clock.read(self._timer)))


def _blobs(prepared: Prepared, prefix: str, without: Collection[str]) -> dict[str, Blob]:
    """The outputs as bytes, in their logical layout."""
    return {f"{prefix}{name}": _flat(array) for name, array in prepared.outputs(without).items()}


def _flat(array: Any) -> Blob:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
