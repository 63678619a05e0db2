"""The worker protocol: every request and its answer, in one table (`OPERATIONS`) that both ends use.

A message is plain JSON data and named byte arrays. A worker's answers are untrusted: each is parsed as the
record that was asked for, or is an error. Not covered: framing (`kcurate.judge.workers.protocol`), faults of
the code that a worker runs (`kcurate.judge.workers.nursery`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from kcurate import codec
from kcurate.backends.base import Compiled, CompileFailure, Counts, EntryPoint, Unread
from kcurate.errors import RecordError
from kcurate.judge.workers.protocol import Blob
from kcurate.problem.compare import Bound
from kcurate.records import Environment, Problem, Resources, Side

A = TypeVar("A")


@dataclass(frozen=True)
class Request(Generic[A]):
    """A request to a worker; `A` is the type of its answer."""


@dataclass(frozen=True)
class Reply(Generic[A]):
    """An answer and the byte arrays that came with it (uint8, one dimension)."""

    body: A
    blobs: Mapping[str, Blob] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """The answer to a request that returns nothing."""


@dataclass(frozen=True)
class Greeting:
    """A worker's first message: which protections are in force, and for a run worker its device."""

    isolation: Mapping[str, bool]
    environment: Environment | None = None
    arch: str | None = None


@dataclass(frozen=True)
class Description:
    """A `Compiled` without its bytes, which are sent as the array `binary`."""

    backend: str
    sha256: str
    lowered: Mapping[str, str]
    resources: tuple[Resources, ...]
    compiler: str
    unread: Mapping[str, Unread] = field(default_factory=dict)


@dataclass(frozen=True)
class CompileAnswer:
    """A binary's description or a failure."""

    compiled: Description | None = None
    failure: CompileFailure | None = None


@dataclass(frozen=True)
class Compile(Request[CompileAnswer]):
    """Compile one side; the reply has the array `binary`."""

    code: str
    entry_points: tuple[EntryPoint, ...]
    symbols: tuple[str, ...]
    sanitize: bool = False
    examine: bool = False


@dataclass(frozen=True)
class DeviceState:
    """The device's current state (clocks, temperature)."""

    environment: Environment


@dataclass(frozen=True)
class AskEnvironment(Request[DeviceState]):
    """Read the device's current state."""


@dataclass(frozen=True)
class Load(Request[Done]):
    """Load a binary (the array `binary`) with its problem and plan; `side` has no code."""

    compiled: Description
    problem: Problem
    side: Side


@dataclass(frozen=True)
class Generate(Request[Done]):
    """Generate one trial's inputs under the name `slot`; with problem and side it may precede `Load`."""

    slot: str
    sizes: Mapping[str, int]
    seed: int
    variation: str
    problem: Problem | None = None
    side: Side | None = None


@dataclass(frozen=True)
class RunAnswer:
    """Integrity violations, and each run's checksum of the `summed` outputs; arrays are `<run>/<name>`."""

    integrity: tuple[str, ...] = ()
    sums: tuple[int, ...] = ()


@dataclass(frozen=True)
class Run(Request[RunAnswer]):
    """Reset and run once for each salt of the noise.

    The reply has all outputs of the first run, and those not in `summed` of later runs. `keep`: the slot's
    inputs stay on the device for timing.
    """

    slot: str
    salts: tuple[int, ...]
    summed: tuple[str, ...]
    keep: bool


@dataclass(frozen=True)
class CountsAnswer:
    """What the side did in one run."""

    counts: Counts


@dataclass(frozen=True)
class Count(Request[CountsAnswer]):
    """Run once and count; only for a side that the emulator's compiler examined.

    At most `sample` blocks of each launch run (0: all), which `seed` chooses.
    """

    slot: str
    sample: int
    seed: int


@dataclass(frozen=True)
class Drop(Request[Done]):
    """Free all slots and everything that timing allocated."""


@dataclass(frozen=True)
class Helpers(Request[Done]):
    """Load our timing kernels (the array `binary`) if need be, and set the salt of checksums."""

    compiled: Description
    salt: int


@dataclass(frozen=True)
class TimeAnswer:
    """The size of the L2 cache, and whether the plan is queued as a CUDA graph."""

    l2_bytes: int
    graph: bool


@dataclass(frozen=True)
class Close:
    """An output whose rounding may differ from run to run, and how far it may be off."""

    name: str
    bound: Bound


@dataclass(frozen=True)
class Time(Request[TimeAnswer]):
    """Get ready to time the inputs kept in `slots`.

    `summed`: outputs that must be the same in every run. `close`: for each slot, outputs that are compared
    with the arrays `<slot>/<output>` of the request. `whole`: outputs that are returned.
    """

    slots: tuple[str, ...]
    summed: tuple[str, ...]
    close: Mapping[str, tuple[Close, ...]]
    whole: tuple[str, ...]


@dataclass(frozen=True)
class CloseAnswer:
    """The number of elements outside their bound, and the sum of the squares of all differences."""

    wrong: int
    squares: float


@dataclass(frozen=True)
class SampleAnswer:
    """One run: its time in microseconds, its input set, and what became of its outputs.

    `sum` is the fingerprint of the `summed` outputs; `integrity` is empty but for a block's last sample.
    """

    us: float
    slot: int
    sum: int
    close: tuple[CloseAnswer, ...] = ()
    integrity: tuple[str, ...] = ()


@dataclass(frozen=True)
class BlockAnswer:
    """One block; the reply has the `whole` outputs as `<sample>/<output>`."""

    samples: tuple[SampleAnswer, ...]


@dataclass(frozen=True)
class Block(Request[BlockAnswer]):
    """Take one block of samples, cycling through the input sets from `first`."""

    samples: int
    first: int


@dataclass(frozen=True)
class WitnessAnswer:
    """A checksum of our own device memory."""

    sum: int


@dataclass(frozen=True)
class Witness(Request[WitnessAnswer]):
    """Checksum our own device memory; a change means that the side wrote outside its buffers."""


@dataclass(frozen=True)
class ClockAnswer:
    """Readings of `kcurate.backends.cuda.clock`: microseconds, and bytes read plus written per second."""

    event_overhead_us: float
    graph_overhead_us: float
    copy_bytes_per_s: float


@dataclass(frozen=True)
class Calibrate(Request[ClockAnswer]):
    """Measure the overheads and the copy bandwidth of this GPU."""


# Operation, request, answer.
OPERATIONS: tuple[tuple[str, type[Request[Any]], type[Any]], ...] = (
    ("compile", Compile, CompileAnswer),
    ("environment", AskEnvironment, DeviceState),
    ("load", Load, Done),
    ("generate", Generate, Done),
    ("run", Run, RunAnswer),
    ("count", Count, CountsAnswer),
    ("drop", Drop, Done),
    ("helpers", Helpers, Done),
    ("time", Time, TimeAnswer),
    ("block", Block, BlockAnswer),
    ("witness", Witness, WitnessAnswer),
    ("calibrate", Calibrate, ClockAnswer),
)
_NAMES = {request: name for name, request, _ in OPERATIONS}
_REQUESTS = {name: request for name, request, _ in OPERATIONS}
_ANSWERS = {request: answer for _, request, answer in OPERATIONS}


def pack_request(request: Request[Any]) -> dict[str, Any]:
    """A request as JSON data."""
    return {"op": _NAMES[type(request)], **codec.to_data(request)}


def read_request(body: Mapping[str, Any]) -> Request[Any]:
    """The request in a frame's body.

    Raises:
        KeyError: there is no such operation. RecordError: a field is missing or malformed.
    """
    data = dict(body)
    return codec.from_data(_REQUESTS[data.pop("op")], data)


def read_answer(request: type[Request[A]], body: Mapping[str, Any]) -> A:
    """The answer to a request of this type in a frame's body.

    Raises:
        RecordError: a field is missing or malformed.
    """
    answer: A = codec.from_data(_ANSWERS[request], dict(body))
    return answer


def pack_compiled(made: Compiled) -> tuple[Description, dict[str, Blob]]:
    """A binary as its description and the array `binary`."""
    described = {one.name: getattr(made, one.name) for one in dataclasses.fields(Description)}
    return Description(**described), {"binary": np.frombuffer(made.binary, np.uint8)}


def unpack_compiled(described: Description, blobs: Mapping[str, Blob]) -> Compiled:
    """The binary in a message.

    Raises:
        RecordError: its bytes are missing.
    """
    if "binary" not in blobs:
        raise RecordError("a binary without its bytes")
    parts = {one.name: getattr(described, one.name) for one in dataclasses.fields(Description)}
    return Compiled(**parts, binary=blobs["binary"].tobytes())
