"""What a run worker does when asked: load one side, make inputs, run, hand outputs over, take times.

Trusted code in a process that also holds a candidate's; it decides nothing. Outputs go to the parent as raw
bytes, or as sums taken on the device with a salt that no candidate knows. Not covered: the process around it
(`kcurate.judge.workers.inside.main`), redzones and poison (`kcurate.judge.workers.inside.execute`), how a
sample is taken (`kcurate.judge.workers.inside.sampler`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kcurate import codec
from kcurate.backends.base import Device, Memory, Module
from kcurate.backends.torch_module import TorchModule
from kcurate.errors import BackendError
from kcurate.judge.workers import compiling
from kcurate.judge.workers.inside.execute import Prepared
from kcurate.judge.workers.protocol import Blob, Frame
from kcurate.problem import program
from kcurate.problem.inputs import contents
from kcurate.problem.program import Program
from kcurate.records import Problem, Side

if TYPE_CHECKING:
    from kcurate.backends.cuda.bench import Bench
    from kcurate.judge.workers.inside.input_sets import Region
    from kcurate.judge.workers.inside.sampler import TimedSide

Answer = tuple[Mapping[str, Any], Mapping[str, Blob]]
NOTHING: Answer = ({}, {})


class Runner:
    """One side on one device; requests are answered by the method of their name.

    A request that the device faults on raises `KernelFault`, and the process must end.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._loaded: tuple[Module, Problem, Side] | None = None
        self._inputs: dict[str, tuple[Program, dict[str, Any]]] = {}
        self._prepared: dict[str, Prepared] = {}
        self._bench: Bench | None = None
        self._salt = 0
        self._timed: TimedSide | None = None
        self._slots: list[str] = []
        self._ops: Mapping[str, Callable[[Frame], Answer]] = {
            "environment": self._environment,
            "load": self._load,
            "generate": self._generate,
            "run": self._run,
            "drop": self._drop,
            "helpers": self._helpers,
            "time": self._time,
            "chain": self._chain,
            "block": self._block,
            "read": self._read,
            "witness": self._witness,
            "calibrate": self._calibrate,
        }

    def handle(self, frame: Frame) -> Answer:
        """Answer one request.

        Raises:
            KernelFault: the side did something that ends its run.
        """
        return self._ops[frame.body["op"]](frame)

    def _environment(self, frame: Frame) -> Answer:
        return {"environment": codec.to_data(self._device.environment())}, {}

    def _load(self, frame: Frame) -> Answer:
        """Load the binary; remember the problem and the side's plan."""
        body = frame.body
        problem, side = codec.from_data(Problem, body["problem"]), codec.from_data(Side, body["side"])
        compiled = compiling.unpack_compiled(frame)
        python = side.language == "torch"
        self._loaded = (TorchModule(compiled) if python else self._device.load(compiled), problem, side)
        return NOTHING

    def _generate(self, frame: Frame) -> Answer:
        """Make the inputs of one case; needs no device, nor a binary when the problem comes with it."""
        body = frame.body
        if "problem" in body:
            problem, side = codec.from_data(Problem, body["problem"]), codec.from_data(Side, body["side"])
        else:
            _, problem, side = self._known()
        bound = program.bind(problem, side, body["sizes"])
        values = contents.generate(problem, side, body["sizes"], body["seed"], body["variation"])
        self._inputs[body["slot"]] = (bound, values)
        return NOTHING

    def _run(self, frame: Frame) -> Answer:
        """Run once for each of `poisons`, everything put as before a first run each time.

        Hands over what was harmed, and each run's outputs as `<run>/<name>`: all of the first run, later
        ones but for those in `summed`, of which it gives a sum.
        """
        slot = frame.body["slot"]
        if slot not in self._prepared:
            bound, values = self._inputs.pop(slot)
            digest = self._digest if self._bench is not None else None
            self._prepared[slot] = Prepared(self._device, self._known()[0], bound, values, digest)
        prepared, summed = self._prepared[slot], frozenset(frame.body["summed"])
        harmed: list[str] = []
        sums: list[str] = []
        blobs: dict[str, Blob] = {}
        for index, poison in enumerate(frame.body["poisons"]):
            prepared.reset(poison)
            prepared.run()
            prepared.finish()
            self._device.synchronize()
            harmed += prepared.integrity()
            sums.append(str(self._sum(prepared, frame.body["summed"])))
            blobs |= _blobs(prepared, f"{index}/", frozenset() if index == 0 else summed)
        if not frame.body["keep"]:
            self._prepared.pop(slot).close()
        return {"integrity": harmed, "sums": sums}, blobs

    def _sum(self, prepared: Prepared, names: Sequence[str]) -> int:
        """One sum over the outputs named, as `TimedSide` takes it."""
        if not names or self._bench is None:
            return 0
        from kcurate.judge.workers.inside.input_sets import sum_regions

        return sum_regions(self._bench, _regions(prepared, names), self._salt)

    def _digest(self, memory: Memory, offset_bytes: int, size_bytes: int) -> int:
        from kcurate.judge.workers.inside.input_sets import Region, sum_regions

        assert self._bench is not None, "helpers come first"
        return sum_regions(self._bench, [Region(memory, offset_bytes, size_bytes)], self._salt ^ 0xD1)

    def _drop(self, frame: Frame) -> Answer:
        """Free every case, and everything that timing made."""
        if self._timed is not None:
            self._timed.close()
            self._timed = None
        for slot in list(self._prepared):
            self._prepared.pop(slot).close()
        self._inputs.clear()
        return NOTHING

    def _known(self) -> tuple[Module, Problem, Side]:
        if self._loaded is None:
            raise BackendError("asked to run before anything was loaded")
        return self._loaded

    def _helpers(self, frame: Frame) -> Answer:
        """Load our own timing kernels (once), and take the salt of this case's sums."""
        from kcurate.backends.cuda.bench import Bench
        from kcurate.backends.cuda.device import CudaDevice

        assert isinstance(self._device, CudaDevice), "only a GPU is timed"
        self._salt = int(frame.body["salt"])
        if self._bench is None:
            self._bench = Bench(self._device, compiling.unpack_compiled(frame))
        return NOTHING

    def _time(self, frame: Frame) -> Answer:
        """Get ready to time the cases named in `slots`, as they lie."""
        from kcurate.judge.workers.inside.sampler import TimedSide

        assert self._bench is not None, "helpers come first"
        self._slots = list(frame.body["slots"])
        chosen = [self._prepared[slot] for slot in frame.body["slots"]]
        for prepared in chosen:
            prepared.reset(frame.body["poison"])
        sets = [_TimedCase(prepared, frame.body["summed"]) for prepared in chosen]
        self._timed = TimedSide(self._bench, sets, self._salt)
        sums = [str(word) for word in self._timed.sums()]
        return {**self._timed.describe(), "sums": sums}, {}

    def _chain(self, frame: Frame) -> Answer:
        """Make the chain that blocks will run."""
        assert self._timed is not None, "time comes first"
        self._timed.ready(frame.body["count"])
        return NOTHING

    def _block(self, frame: Frame) -> Answer:
        """Take one block of samples."""
        assert self._timed is not None, "time comes first"
        body = frame.body
        if body["method"] == "chain":
            times, sums = self._timed.chain(body["samples"], body["count"])
        else:
            times, sums = self._timed.block(body["samples"], body["first"])
        return {"times": times, "sums": [[index, str(word)] for index, word in sums]}, {}

    def _read(self, frame: Frame) -> Answer:
        """What lies in a case's outputs now, and what was harmed."""
        prepared = self._prepared[frame.body["slot"]]
        harmed = prepared.integrity()
        chained = self._timed.chained(self._slots.index(frame.body["slot"])) if self._timed else None
        if isinstance(chained, _TimedCase):
            prepared = chained.prepared
            harmed += prepared.integrity()
        return {"integrity": list(harmed)}, _blobs(prepared, "0/", frozenset(frame.body["summed"]))

    def _witness(self, frame: Frame) -> Answer:
        """A sum over memory of ours that no candidate knows of: a change says that one went astray."""
        assert self._timed is not None, "time comes first"
        return {"sum": str(self._timed.witness())}, {}

    def _calibrate(self, frame: Frame) -> Answer:
        """What this GPU's clock and memory are like."""
        from kcurate.backends.cuda import clock

        assert self._bench is not None, "helpers come first"
        return {"clock": clock.read(self._bench)}, {}


class _TimedCase:
    """A prepared case as `timed_side.Runnable`: every run starts from the same bindings of buffers."""

    def __init__(self, prepared: Prepared, summed: Sequence[str]) -> None:
        self.prepared = prepared
        self._summed = summed

    def run(self) -> None:
        self.prepared.bound = dict(self.prepared.slots)
        self.prepared.run()

    def reset_state(self) -> None:
        self.prepared.reset_state()

    def pieces(self) -> int | None:
        return self.prepared.pieces

    def written(self) -> list[Memory]:
        slots = self.prepared.slots.values()
        return [slot.memory for slot in slots if slot.buffer.record.role != "in"]

    def results(self) -> list[Region]:
        self.prepared.finish()
        return _regions(self.prepared, self._summed)

    def size_bytes(self) -> int:
        return sum(-(-slot.memory.size_bytes // 256) * 256 for slot in self.prepared.slots.values())

    def twin(self, allocate: Callable[[int], Memory]) -> _TimedCase:
        return _TimedCase(self.prepared.twin(allocate), self._summed)


def _regions(prepared: Prepared, names: Sequence[str]) -> list[Region]:
    """Where the contents of the buffers named lie now."""
    from kcurate.judge.workers.inside.input_sets import Region

    places = [(prepared.bound[name], prepared.slots[name].buffer.size_bytes) for name in names]
    return [Region(slot.memory, slot.before, size_bytes) for slot, size_bytes in places]


def _blobs(prepared: Prepared, prefix: str, without: frozenset[str]) -> dict[str, Blob]:
    """The outputs as bytes, in their logical layout."""
    outputs = prepared.outputs(without).items()
    return {
        f"{prefix}{name}": np.ascontiguousarray(array).reshape(-1).view(np.uint8) for name, array in outputs
    }
