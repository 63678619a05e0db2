"""The hardware counters of one side on one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.records.pair import SideName


@dataclass(frozen=True)
class Profile:
    """The counters of one side of a pair on one device, by name (`kcurate.profiling.counters`).

    `key` is the hash of the side with its problem and of the version of the counters; equal sides of several
    pairs share it. `launches`: in the plan; `profiled`: how many of these were counted. Counters that the GPU
    or the tool lacks are missing.
    """

    candidate: str
    side: SideName
    key: str
    device: str
    tool: str
    launches: int
    profiled: int
    counters: Mapping[str, float]
    driver: str | None = None
    compiler: str | None = None
