"""What a profiler counted while one side ran on one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.records.pair import SideName


@dataclass(frozen=True)
class Profile:
    """The counters of one side of a pair on one device, by name (`kcurate.profiling.counters`).

    `key` is the hash of the side with its problem and of how the counters are put together; sides of several
    pairs may share it. `launches` of the plan, of which `profiled` were counted. A counter that the GPU or
    the tool lacks is missing.
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
