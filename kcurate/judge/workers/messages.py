"""What a worker can be asked, and what it answers: one table of types that both ends use.

A message is plain JSON data and named byte arrays (`kcurate.judge.workers.protocol`). What a worker sends is
not trusted: it becomes a record of the type that was asked for, or an error. Not covered: faults of the code
that a worker runs (`kcurate.judge.workers.nursery`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from kcurate import codec
from kcurate.backends.base import Compiled, CompileFailure, EntryPoint
from kcurate.errors import RecordError
from kcurate.judge.workers.protocol import Blob
from kcurate.records import Environment, Problem, Resources, Side

A = TypeVar("A")


@dataclass(frozen=True)
class Request(Generic[A]):
    """Something asked of a worker; `A` is the type of its answer."""


@dataclass(frozen=True)
class Reply(Generic[A]):
    """An answer, and the byte arrays that came with it (uint8, one dimension)."""

    body: A
    blobs: Mapping[str, Blob] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """It is done; there is nothing to tell."""


@dataclass(frozen=True)
class Greeting:
    """The first message of a worker: which protections are in force, and what it opened."""

    isolation: Mapping[str, bool]
    environment: Environment | None = None
    arch: str | None = None


@dataclass(frozen=True)
class Description:
    """A `Compiled` without its bytes, which travel beside it as the array `binary`."""

    backend: str
    sha256: str
    lowered: Mapping[str, str]
    resources: tuple[Resources, ...]
    compiler: str


@dataclass(frozen=True)
class CompileAnswer:
    """A binary's description, or why there is none."""

    compiled: Description | None = None
    failure: CompileFailure | None = None


@dataclass(frozen=True)
class Compile(Request[CompileAnswer]):
    """Compile one side; the binary comes as `binary`."""

    code: str
    entry_points: tuple[EntryPoint, ...]
    symbols: tuple[str, ...]
    sanitize: bool = False


@dataclass(frozen=True)
class DeviceState:
    """The device as it is now (clocks, temperature)."""

    environment: Environment


@dataclass(frozen=True)
class AskEnvironment(Request[DeviceState]):
    """The device's state."""


@dataclass(frozen=True)
class Load(Request[Done]):
    """Load a binary (`binary`); remember the problem and the side's plan (the side comes without code)."""

    compiled: Description
    problem: Problem
    side: Side


@dataclass(frozen=True)
class Generate(Request[Done]):
    """Make one case's inputs; needs no binary when problem and side come with it."""

    slot: str
    sizes: Mapping[str, int]
    seed: int
    variation: str
    problem: Problem | None = None
    side: Side | None = None


@dataclass(frozen=True)
class RunAnswer:
    """What was harmed, and a sum of each run's `summed` outputs; outputs come as `<run>/<name>`."""

    integrity: tuple[str, ...] = ()
    sums: tuple[int, ...] = ()


@dataclass(frozen=True)
class Run(Request[RunAnswer]):
    """Run once for each of `poisons`, everything put as before a first run each time.

    All outputs of the first run are handed over, and later ones but for those in `summed`. `keep`: the case
    stays prepared for timing.
    """

    slot: str
    poisons: tuple[int, ...]
    summed: tuple[str, ...]
    keep: bool


@dataclass(frozen=True)
class Drop(Request[Done]):
    """Free every case, and everything that timing made."""


@dataclass(frozen=True)
class Helpers(Request[Done]):
    """Load our own timing kernels (`binary`, once), and take the salt of this case's sums."""

    compiled: Description
    salt: int


@dataclass(frozen=True)
class TimeAnswer:
    """What the parent needs to choose a method; `chain_runs`: the longest chain that there is room for."""

    chain_runs: int
    l2_bytes: int
    sums: tuple[int, ...] = ()


@dataclass(frozen=True)
class Time(Request[TimeAnswer]):
    """Get ready to time the cases named in `slots`, as they lie; runs each once and sums its outputs."""

    slots: tuple[str, ...]
    summed: tuple[str, ...]
    poison: int


@dataclass(frozen=True)
class Chain(Request[Done]):
    """Make the chain of `count` runs that blocks will take."""

    count: int


@dataclass(frozen=True)
class BlockAnswer:
    """Samples in microseconds, and (input set, sum of its outputs) of each run."""

    times: tuple[float, ...]
    sums: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Block(Request[BlockAnswer]):
    """Take one block of samples, the input sets in turn from `first`."""

    method: str
    samples: int
    first: int
    count: int


@dataclass(frozen=True)
class Read(Request[RunAnswer]):
    """What lies in a case's outputs now, but for those `summed`, and what was harmed."""

    slot: str
    summed: tuple[str, ...]


@dataclass(frozen=True)
class WitnessAnswer:
    """A sum over memory of ours."""

    sum: int


@dataclass(frozen=True)
class Witness(Request[WitnessAnswer]):
    """Sum memory of ours that no candidate knows of: a change says that a write went astray."""


@dataclass(frozen=True)
class ClockAnswer:
    """Readings of `kcurate.backends.cuda.clock`: microseconds, and bytes read plus written a second."""

    event_overhead_us: float
    chain_overhead_us: float
    chain_step_us: float
    copy_bytes_per_s: float


@dataclass(frozen=True)
class Calibrate(Request[ClockAnswer]):
    """What this GPU's clock and memory are like."""


# The protocol: operation, request, answer.
OPERATIONS: tuple[tuple[str, type[Request[Any]], type[Any]], ...] = (
    ("compile", Compile, CompileAnswer),
    ("environment", AskEnvironment, DeviceState),
    ("load", Load, Done),
    ("generate", Generate, Done),
    ("run", Run, RunAnswer),
    ("drop", Drop, Done),
    ("helpers", Helpers, Done),
    ("time", Time, TimeAnswer),
    ("chain", Chain, Done),
    ("block", Block, BlockAnswer),
    ("read", Read, RunAnswer),
    ("witness", Witness, WitnessAnswer),
    ("calibrate", Calibrate, ClockAnswer),
)
_NAMES = {request: name for name, request, _ in OPERATIONS}
_REQUESTS = {name: request for name, request, _ in OPERATIONS}
_ANSWERS = {request: answer for _, request, answer in OPERATIONS}


def pack_request(request: Request[Any]) -> dict[str, Any]:
    """A request as plain data."""
    return {"op": _NAMES[type(request)], **codec.to_data(request)}


def read_request(body: Mapping[str, Any]) -> Request[Any]:
    """The request that a frame's body holds.

    Raises:
        KeyError: there is no such operation. RecordError: it lacks something.
    """
    data = dict(body)
    return codec.from_data(_REQUESTS[data.pop("op")], data)


def read_answer(request: type[Request[A]], body: Mapping[str, Any]) -> A:
    """What a frame's body says in answer to a request of this type.

    Raises:
        RecordError: it is no such answer.
    """
    answer: A = codec.from_data(_ANSWERS[request], dict(body))
    return answer


def pack_compiled(made: Compiled) -> tuple[Description, dict[str, Blob]]:
    """A binary as its description and the array that goes with it."""
    described = {one.name: getattr(made, one.name) for one in dataclasses.fields(Description)}
    return Description(**described), {"binary": np.frombuffer(made.binary, np.uint8)}


def unpack_compiled(described: Description, blobs: Mapping[str, Blob]) -> Compiled:
    """The binary that a message carries.

    Raises:
        RecordError: its bytes are missing.
    """
    if "binary" not in blobs:
        raise RecordError("a binary without its bytes")
    parts = {one.name: getattr(described, one.name) for one in dataclasses.fields(Description)}
    return Compiled(**parts, binary=blobs["binary"].tobytes())
