"""What a judge asks of a worker in order to time its side, and what the worker answers.

Not covered: all other requests (`kcurate.judge.workers.requests`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.judge.workers.requests import Close, CloseAnswer, Description, Done, Place, Request


@dataclass(frozen=True)
class Helpers(Request[Done]):
    """Load our own kernels (the array `binary`), unless they are loaded."""

    compiled: Description


@dataclass(frozen=True)
class TimeAnswer:
    """The size of the L2 cache, and whether the plan is queued as a CUDA graph."""

    l2_bytes: int
    graph: bool


@dataclass(frozen=True)
class Time(Request[TimeAnswer]):
    """Get ready to time the inputs kept in `slots`.

    `fingerprints`: the salt of each slot's. `by_fingerprint`: outputs that must be the same in every run.
    `close`: for each slot, outputs that are compared with its hidden copies. `read_back`: outputs that are
    returned.
    """

    slots: tuple[str, ...]
    fingerprints: tuple[int, ...]
    by_fingerprint: tuple[str, ...]
    close: Mapping[str, tuple[Close, ...]]
    read_back: tuple[str, ...]
    places: Mapping[str, tuple[Place, ...]]


@dataclass(frozen=True)
class SampleAnswer:
    """One run: its time in microseconds, its input set, and what became of its outputs.

    `sum` is the fingerprint of the `by_fingerprint` outputs; `integrity` is empty but for a block's last
    sample; `place` is the number of the place that it returns, -1 for none.
    """

    us: float
    slot: int
    sum: int
    close: tuple[CloseAnswer, ...] = ()
    integrity: tuple[str, ...] = ()
    place: int = -1


@dataclass(frozen=True)
class BlockAnswer:
    """One block; the reply has the `whole` outputs as `<sample>/<output>`, and the places as `<sample>`."""

    samples: tuple[SampleAnswer, ...]


@dataclass(frozen=True)
class Block(Request[BlockAnswer]):
    """Take one block of samples, cycling through the input sets from `first`."""

    samples: int
    first: int


@dataclass(frozen=True)
class ClockAnswer:
    """Readings of `kcurate.backends.cuda.clock`: microseconds, and bytes read plus written per second."""

    event_overhead_us: float
    graph_overhead_us: float
    copy_bytes_per_s: float


@dataclass(frozen=True)
class Calibrate(Request[ClockAnswer]):
    """Measure the overheads and the copy bandwidth of this GPU."""
