"""The timing protocol: which samples are taken, in which order, and when to stop.

The sides' workers never share a CUDA context. They alternate, one block of samples each, in random order
within each pair of blocks, while the caller holds the GPU exclusively. A sample is an event pair around one
run. Timing stops when the interval is tight, at 100 blocks, or when the time is up. Not covered: taking a
sample (`kcurate.judge.workers.inside.sampler`), the interval (`kcurate.judge.timing.statistics`).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kcurate.core import time_limits
from kcurate.judge.timing import statistics
from kcurate.records import Speedup
from kcurate.records.pair import SIDES, SideName

# Below this no speedup is reported: what an event pair reads around an empty kernel is uncertain by 0.35 us
# (our measurements with Nsight Compute, H100 and H200, November 2026).
SHORTEST_US = 5.0
# The interval is computed after a multiple of so many blocks, each time after a fifth more.
CHECK_EVERY = 4
CHECK_GROWTH = 1.2
# A block of one side has as many samples as fit: one from each input set in turn, or as many of each, up to
# `SAMPLES_PER_BLOCK`, since the sides' ratio may depend on the inputs.
BLOCK_US = 5_000.0
SAMPLES_PER_BLOCK = 4
INPUT_SETS = 2
WARM_UP_US = 3_000.0
# Warm-up ends when two successive medians agree within this fraction.
SETTLED = 0.02
MAX_WARM_UP_GROUPS = 20
# In seconds; the tests put a simulated clock here.
wall_clock = time.perf_counter


class Sampler(Protocol):
    """Takes one side's samples."""

    graph: bool

    def block(self, samples: int, first: int) -> list[float]:
        """Take samples, in microseconds; `first` is the first input set.

        Raises:
            Ruling: a timed run gave other outputs than the verified ones, or the side failed.
        """


@dataclass(frozen=True)
class Schedule:
    """How many samples each side's blocks have, and what to subtract from a sample."""

    samples: Mapping[SideName, int]
    overhead_us: Mapping[SideName, float]

    @property
    def strata(self) -> int:
        """How many kinds of blocks there are: one for each input set, if some have one sample."""
        return INPUT_SETS if 1 in self.samples.values() else 1


@dataclass
class Samples:
    """All samples by side and block, in microseconds, and the estimate from them."""

    blocks: dict[SideName, list[tuple[float, ...]]] = field(default_factory=lambda: {"slow": [], "fast": []})
    estimate: Speedup | None = None
    settled: bool = False
    wall_s: float = 0.0

    def median_us(self, side: SideName) -> float:
        """The median of one side's samples."""
        return statistics.median_us(self.blocks[side])


@dataclass(frozen=True)
class TimingConfig:
    """Seed, and overheads to subtract: of an event pair around a launch, and around a CUDA graph."""

    seed: int
    event_overhead_us: float = 0.0
    graph_overhead_us: float = 0.0


def measure(
    samplers: Mapping[SideName, Sampler], config: TimingConfig, margin: Callable[[float], float]
) -> Samples:
    """Time both sides against each other. `margin(us)`: the difference to exceed at this duration.

    Raises:
        Ruling: a side failed, from the samplers.
    """
    started = wall_clock()
    rng = random.Random(config.seed)
    schedule = _schedule(samplers, config)
    samples = Samples()
    check_at = statistics.MIN_BLOCKS
    while True:
        _one_round(samplers, schedule, samples, rng)
        count = len(samples.blocks["fast"])
        samples.wall_s = wall_clock() - started
        out_of_time = samples.wall_s >= (
            time_limits.TIMING_S if count >= statistics.MIN_BLOCKS else time_limits.TIMING_HARD_S
        )
        if not out_of_time and count < check_at:
            continue
        check_at = min(statistics.MAX_BLOCKS, CHECK_EVERY * math.ceil(count * CHECK_GROWTH / CHECK_EVERY))
        samples.estimate = _estimate(samples, config.seed, margin, schedule.strata)
        if samples.estimate is None:
            return samples
        samples.settled = (
            statistics.tight(samples.estimate, samples.wall_s)
            and count >= statistics.MIN_BLOCKS
            and statistics.decide(samples.estimate) != "ambiguous_timing"
        )
        if samples.settled or count >= statistics.MAX_BLOCKS or out_of_time:
            return samples


def _estimate(samples: Samples, seed: int, margin: Callable[[float], float], strata: int) -> Speedup | None:
    """The estimate so far; None if a side is too short to report a speedup."""
    slow, fast = samples.blocks["slow"], samples.blocks["fast"]
    shortest = min(samples.median_us(side) for side in SIDES)
    if shortest < SHORTEST_US or statistics.log_ratios(slow, fast).size < strata:
        return None
    return statistics.speedup(slow, fast, margin=margin(shortest), seed=seed, strata=strata)


def _one_round(
    samplers: Mapping[SideName, Sampler], schedule: Schedule, samples: Samples, rng: random.Random
) -> None:
    """One block of each side, in random order."""
    order = list(SIDES)
    rng.shuffle(order)
    first = len(samples.blocks["fast"])
    for side in order:
        times = samplers[side].block(schedule.samples[side], first)
        samples.blocks[side].append(tuple(t - schedule.overhead_us[side] for t in times))


def _schedule(samplers: Mapping[SideName, Sampler], config: TimingConfig) -> Schedule:
    """Warm both sides up, and choose counts from what a sample costs, with all that is done around it."""
    overhead_us = {
        side: config.graph_overhead_us if samplers[side].graph else config.event_overhead_us for side in SIDES
    }
    each_us = {side: _warm_up(samplers[side]) for side in SIDES}
    samples = {side: _samples(BLOCK_US / us) for side, us in each_us.items()}
    return Schedule(samples, overhead_us)


def _samples(fit: float) -> int:
    """The number of samples in a block: one, or the same number from each input set."""
    if fit < INPUT_SETS:
        return 1
    return INPUT_SETS * int(min(SAMPLES_PER_BLOCK, fit) / INPUT_SETS)


def _warm_up(sampler: Sampler) -> float:
    """Run until times have settled; what a sample of the last group cost, in wall-clock microseconds."""
    spent, last = 0.0, math.inf
    count = 1
    for _ in range(MAX_WARM_UP_GROUPS):
        started = wall_clock()
        group = sampler.block(count, 0)
        cost = max(1e6 * (wall_clock() - started) / count, max(group))
        median = statistics.median_us([group])
        spent += cost * count
        if spent >= WARM_UP_US and abs(median - last) <= SETTLED * median:
            break
        if median > WARM_UP_US and count == 1:
            break
        count = max(1, min(SAMPLES_PER_BLOCK, int(WARM_UP_US / cost)))
        last = median
    return cost
