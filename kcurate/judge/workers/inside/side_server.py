"""The worker's end of one side: load it, generate inputs, run it, send outputs, take samples.

Trusted code in a process that also holds a candidate's code; it makes no pass/fail decision. Outputs go to
the parent as raw bytes, or as checksums with a secret salt. Not covered: the process
(`kcurate.judge.workers.inside.main`), redzones and poison (`kcurate.judge.workers.inside.execute`), samples
(`kcurate.judge.workers.inside.sampler`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kcurate.backends.base import Device, Memory, Module
from kcurate.backends.torch_module import TorchModule
from kcurate.errors import BackendError
from kcurate.judge.workers.inside.execute import Prepared
from kcurate.judge.workers.messages import (
    AskEnvironment,
    Block,
    BlockAnswer,
    Calibrate,
    Chain,
    ClockAnswer,
    DeviceState,
    Done,
    Drop,
    Generate,
    Helpers,
    Load,
    Read,
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
    from kcurate.judge.workers.inside.input_sets import Region
    from kcurate.judge.workers.inside.sampler import DeviceSampler

A = TypeVar("A")
DONE: Reply[Done] = Reply(Done())


class SideServer:
    """One side on one device, with one method per type of request.

    After a `KernelFault` the process must exit.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._loaded: tuple[Module, Problem, Side] | None = None
        self._inputs: dict[str, tuple[Program, dict[str, Any]]] = {}
        self._prepared: dict[str, Prepared] = {}
        self._timer: GpuTimer | None = None
        self._salt = 0
        self._timed: DeviceSampler | None = None
        self._slots: list[str] = []
        self.methods: Mapping[type[Request[Any]], Callable[[Any, Mapping[str, Blob]], Reply[Any]]] = {
            AskEnvironment: self._environment,
            Load: self._load,
            Generate: self._generate,
            Run: self._run,
            Drop: self._drop,
            Helpers: self._helpers,
            Time: self._time,
            Chain: self._chain,
            Block: self._block,
            Read: self._read,
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
        slot = asked.slot
        if slot not in self._prepared:
            bound, values = self._inputs.pop(slot)
            digest = self._digest if self._timer is not None else None
            self._prepared[slot] = Prepared(self._device, self._known()[0], bound, values, digest)
        prepared, summed = self._prepared[slot], frozenset(asked.summed)
        damage: list[str] = []
        sums: list[int] = []
        blobs: dict[str, Blob] = {}
        for index, poison in enumerate(asked.poisons):
            prepared.reset(poison)
            prepared.run()
            prepared.finish()
            self._device.synchronize()
            damage += prepared.integrity()
            sums.append(self._sum(prepared, asked.summed))
            blobs |= _blobs(prepared, f"{index}/", frozenset() if index == 0 else summed)
        if not asked.keep:
            self._prepared.pop(slot).close()
        return Reply(RunAnswer(tuple(damage), tuple(sums)), blobs)

    def _sum(self, prepared: Prepared, names: Sequence[str]) -> int:
        """One checksum of the named outputs, as `DeviceSampler` takes it."""
        if not names or self._timer is None:
            return 0
        from kcurate.judge.workers.inside.input_sets import sum_regions

        return sum_regions(self._timer, _regions(prepared, names), self._salt)

    def _digest(self, memory: Memory, offset_bytes: int, size_bytes: int) -> int:
        from kcurate.judge.workers.inside.input_sets import Region, sum_regions

        assert self._timer is not None, "helpers come first"
        return sum_regions(self._timer, [Region(memory, offset_bytes, size_bytes)], self._salt ^ 0xD1)

    def _drop(self, asked: Drop, _: Mapping[str, Blob]) -> Reply[Done]:
        if self._timed is not None:
            self._timed.close()
            self._timed = None
        for slot in list(self._prepared):
            self._prepared.pop(slot).close()
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

    def _time(self, asked: Time, _: Mapping[str, Blob]) -> Reply[TimeAnswer]:
        from kcurate.judge.workers.inside.sampler import DeviceSampler

        assert self._timer is not None, "helpers come first"
        self._slots = list(asked.slots)
        chosen = [self._prepared[slot] for slot in asked.slots]
        for prepared in chosen:
            prepared.reset(asked.poison)
        sets = [_PreparedRunnable(prepared, asked.summed) for prepared in chosen]
        self._timed = DeviceSampler(self._timer, sets, self._salt)
        sums = tuple(self._timed.checksums())
        return Reply(replace(self._timed.describe(), sums=sums))

    def _chain(self, asked: Chain, _: Mapping[str, Blob]) -> Reply[Done]:
        assert self._timed is not None, "time comes first"
        self._timed.build_chain(asked.count)
        return DONE

    def _block(self, asked: Block, _: Mapping[str, Blob]) -> Reply[BlockAnswer]:
        assert self._timed is not None, "time comes first"
        if asked.method == "chain":
            times, sums = self._timed.build_chain(asked.count).block(asked.samples)
        else:
            times, sums = self._timed.block(asked.samples, asked.first)
        return Reply(BlockAnswer(tuple(times), tuple(sums)))

    def _read(self, asked: Read, _: Mapping[str, Blob]) -> Reply[RunAnswer]:
        prepared = self._prepared[asked.slot]
        damage = prepared.integrity()
        chained = self._timed.last_clone(self._slots.index(asked.slot)) if self._timed else None
        if isinstance(chained, _PreparedRunnable):
            prepared = chained.prepared
            damage += prepared.integrity()
        return Reply(RunAnswer(tuple(damage)), _blobs(prepared, "0/", frozenset(asked.summed)))

    def _witness(self, asked: Witness, _: Mapping[str, Blob]) -> Reply[WitnessAnswer]:
        assert self._timed is not None, "time comes first"
        return Reply(WitnessAnswer(self._timed.witness()))

    def _calibrate(self, asked: Calibrate, _: Mapping[str, Blob]) -> Reply[ClockAnswer]:
        from kcurate.backends.cuda import clock

        assert self._timer is not None, "helpers come first"
        return Reply(ClockAnswer(**clock.read(self._timer)))


class _PreparedRunnable:
    """A prepared slot as `input_sets.Runnable`; every run starts with unswapped buffers."""

    def __init__(self, prepared: Prepared, summed: Sequence[str]) -> None:
        self.prepared = prepared
        self._summed = summed

    def run(self) -> None:
        self.prepared.bound = dict(self.prepared.slots)
        self.prepared.run()

    def reset_state(self) -> None:
        self.prepared.reset_state()

    def queued_operations(self) -> int | None:
        return self.prepared.queued_operations

    def written(self) -> list[Memory]:
        slots = self.prepared.slots.values()
        return [slot.memory for slot in slots if slot.buffer.record.role != "in"]

    def results(self) -> list[Region]:
        self.prepared.finish()
        return _regions(self.prepared, self._summed)

    def size_bytes(self) -> int:
        return sum(-(-slot.memory.size_bytes // 256) * 256 for slot in self.prepared.slots.values())

    def clone(self, allocate: Callable[[int], Memory]) -> _PreparedRunnable:
        return _PreparedRunnable(self.prepared.clone(allocate), self._summed)


def _regions(prepared: Prepared, names: Sequence[str]) -> list[Region]:
    """The device memory of the named buffers' contents."""
    from kcurate.judge.workers.inside.input_sets import Region

    places = [(prepared.bound[name], prepared.slots[name].buffer.size_bytes) for name in names]
    return [Region(slot.memory, slot.before, size_bytes) for slot, size_bytes in places]


def _blobs(prepared: Prepared, prefix: str, without: frozenset[str]) -> dict[str, Blob]:
    """The outputs as bytes, in their logical layout."""
    outputs = prepared.outputs(without).items()
    return {
        f"{prefix}{name}": np.ascontiguousarray(array).reshape(-1).view(np.uint8) for name, array in outputs
    }
