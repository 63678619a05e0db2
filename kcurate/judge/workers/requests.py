"""What a judge asks of a worker, and what the worker answers: requests and their answers, as records.

Not covered: timing (`kcurate.judge.workers.timing_requests`), JSON (`kcurate.judge.workers.messages`), faults
of the code that a worker runs (`kcurate.judge.workers.nursery`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from kcurate.backends.base import CompileFailure, Counts, EntryPoint, Unread
from kcurate.judge.workers.protocol import Blob
from kcurate.problem.compare import Bound
from kcurate.records import Environment, Problem, Resources, Side

A = TypeVar("A")
# Which build of a side: its own, one with wider accumulation, or one for random orders of threads.
Text = Literal["own", "wide", "turns"]


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
    dynamic_shared: Mapping[str, int] = field(default_factory=dict)
    outside: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompileAnswer:
    """A binary's description or a failure."""

    compiled: Description | None = None
    failure: CompileFailure | None = None


@dataclass(frozen=True)
class Compile(Request[CompileAnswer]):
    """Compile one side; the reply has the array `binary`. `ptx`: from an earlier request as `triton`."""

    code: str
    entry_points: tuple[EntryPoint, ...]
    symbols: tuple[str, ...]
    sanitize: bool = False
    examine: bool = False
    turns: bool = False
    language: Literal["cuda", "triton", "ptx"] = "cuda"


@dataclass(frozen=True)
class DeviceState:
    """The device's current state (clocks, temperature)."""

    environment: Environment


@dataclass(frozen=True)
class AskEnvironment(Request[DeviceState]):
    """Ask for the device's current state."""


@dataclass(frozen=True)
class Load(Request[Done]):
    """Load a binary (the array `binary`) with its problem and plan; `side` has no code.

    `text`: which build. Only a reference has `wide` (wider accumulation); `turns`, for random orders of
    threads, exists only on the emulator.
    """

    compiled: Description
    problem: Problem
    side: Side
    text: Text = "own"


@dataclass(frozen=True)
class Generate(Request[Done]):
    """Generate one trial's inputs under the name `slot`; with problem and side it may precede `Load`.

    `on_device`: leave to the device what it can make itself.
    """

    slot: str
    sizes: Mapping[str, int]
    seed: int
    variation: str
    on_device: bool = False
    problem: Problem | None = None
    side: Side | None = None


@dataclass(frozen=True)
class RunAnswer:
    """What runs did: writes outside the outputs, and on the device each run's fingerprint of each output.

    `prints`: for each run, one fingerprint for each output that must be the same in every run. `drifted`:
    outputs that differ between runs by more than rounding explains. Arrays are `<run>/<name>`.
    """

    integrity: tuple[str, ...] = ()
    prints: tuple[tuple[int, ...], ...] = ()
    drifted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run(Request[RunAnswer]):
    """Reset and run once for each salt of the noise.

    The reply has all outputs of all runs. With `fingerprint` (the salt of fingerprints), inputs and outputs
    stay on the device instead, until `Forget`, and the outputs until the next run; the reply has only
    outputs that no device can compare. `orders`: for each run, the seed of its thread order (0: the usual
    order); with it, only the order differs between runs. `room`: for each kernel, the most static shared
    bytes per block at which a GPU can hold all blocks at once (`Library.schedule`).
    """

    slot: str
    salts: tuple[int, ...]
    fingerprint: int | None = None
    text: Text = "own"
    orders: tuple[int, ...] = ()
    room: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Size:
    """The `Magnitudes` of a floating-point output, and how many of its elements are compared."""

    largest: float
    rms: float
    count: int


@dataclass(frozen=True)
class HideAnswer:
    """The size of each output; all zeros for integer outputs."""

    sizes: tuple[Size, ...]


@dataclass(frozen=True)
class Hide(Request[HideAnswer]):
    """Keep encrypted copies of outputs of the slot's last run on the device, for comparisons.

    `hiding`: by output, (salt, key). Two copies with the same pair would reveal the xor of the outputs.
    """

    slot: str
    hiding: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Bring(Request[Done]):
    """Copy encrypted copies to the host, for `Fetch`."""

    slot: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Fetch(Request[Done]):
    """Send what `Bring` copied, as the arrays `<name>`; this does not use the device."""

    slot: str


@dataclass(frozen=True)
class Expect(Request[Done]):
    """Take encrypted copies from another worker (the arrays `<name>`); this does not use the device."""

    slot: str
    hiding: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Close:
    """An output and how far its elements may be off."""

    name: str
    bound: Bound


@dataclass(frozen=True)
class CloseAnswer:
    """How many elements (`wrong`) and groups exceed their bounds, and the sum of squared differences."""

    wrong: int
    squares: float
    groups: int

    def within(self, norm: float) -> bool:
        """Whether none exceeds its bound, and the norm of the whole difference is at most `norm`."""
        return not self.wrong and not self.groups and self.squares <= norm**2


@dataclass(frozen=True)
class CompareAnswer:
    """One answer for each output."""

    close: tuple[CloseAnswer, ...]


@dataclass(frozen=True)
class Compare(Request[CompareAnswer]):
    """Compare outputs of the slot's last run with the encrypted copies of the slot `against`."""

    slot: str
    against: str
    close: tuple[Close, ...]


@dataclass(frozen=True)
class Place:
    """A run of elements of an output, in logical order."""

    name: str
    start: int
    count: int


@dataclass(frozen=True)
class Peek(Request[Done]):
    """Copy parts of outputs of the slot's last run to the host, as the arrays `<number of the place>`."""

    slot: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class ReadOutputs(Request[Done]):
    """Send outputs of the slot's last run, as the arrays `<name>`."""

    slot: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Forget(Request[Done]):
    """Free the encrypted copies of slots, and with `inputs` their inputs."""

    slots: tuple[str, ...]
    inputs: bool = True


@dataclass(frozen=True)
class CountsAnswer:
    """What the side did in one run. `reached`: the bytes of each buffer up to the furthest access. `digest`:
    a hash of all outputs, if asked for. `agreeing`: the parts that their probes never found needed."""

    counts: Counts
    reached: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    agreeing: tuple[int, ...] = ()


@dataclass(frozen=True)
class Count(Request[CountsAnswer]):
    """Run at most `sample` blocks (0: all) of each launch, chosen by `seed`, and count; on the emulator.

    `follow`: also tell how far each buffer is read or written. `ablated`: the numbers of the parts of the
    code that are left out. `outputs`: answer with their digest and, where all blocks run, with the outputs.
    """

    slot: str
    sample: int
    seed: int
    follow: bool = False
    ablated: tuple[int, ...] = ()
    outputs: bool = False


@dataclass(frozen=True)
class Drop(Request[Done]):
    """Free all slots and everything that timing allocated.

    `unload`: also unload the side's modules and overwrite what it may have left on the GPU, so that another
    side can run in this process.
    """

    unload: bool = False
