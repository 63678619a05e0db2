"""The timing protocol: which samples are taken, in which order, and when to stop.

The sides' workers never share a CUDA context. They alternate, one block of samples each, in random order
within each pair of blocks, while the caller holds the GPU exclusively. Method `events`: an event pair around
each run. Method `chain` (a side under 50 us, and the other side too unless it is much longer): an event pair
around a CUDA graph of many runs. Timing stops when the interval is tight, at 100 blocks, or when the time is
up. Not covered: taking a sample (`kcurate.judge.workers.inside.sampler`), the interval
(`kcurate.judge.timing.statistics`).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from kcurate import time_limits
from kcurate.judge.timing import statistics
from kcurate.judge.workers.side_proxy import on_both_sides
from kcurate.records import Speedup
from kcurate.records.pair import SIDES, SideName

Method = Literal["events", "chain"]

# Below this an event pair's overhead and jitter (4.2 to 5.2 us around an empty kernel) are a large part of
# its reading; from 10 to 50 us it still varies by 1 to 2% between processes, a chain by 0.3% (our
# measurements, A against A, H200, November 2026).
CHAIN_BELOW_US = 50.0
# If one side uses chains, so does the other up to this many times `CHAIN_BELOW_US`.
CHAIN_TOGETHER = 4.0
# Below this no speedup is reported.
SHORTEST_US = 0.3
# The interval is computed every so many blocks.
CHECK_EVERY = 4
SAMPLES_PER_BLOCK = 8
# A chain is already an average of many runs.
CHAINS_PER_BLOCK = 1
# A block of one side should not take much longer than this.
BLOCK_US = 20_000.0
CHAIN_TOTAL_US = 200.0
# Minimum and maximum runs in a chain.
CHAIN_RUNS = (8, 64)
# Sides whose times differ by a smaller factor get chains of equal length.
SIMILAR = 1.5
# Approximate time of the cache flush before each sample (our measurement, H200, November 2026).
FLUSH_US = 60.0
WARM_UP_US = 3_000.0
# Warm-up ends when two successive medians agree within this fraction.
SETTLED = 0.01
MAX_WARM_UP_GROUPS = 40


class Sampler(Protocol):
    """Takes one side's samples."""

    def ready(self, method: Method, count: int) -> None:
        """Prepare what `block` will need. Both sides may prepare at once, from different threads."""

    def block(self, method: Method, samples: int, first: int, count: int) -> list[float]:
        """Take samples, in microseconds; `first` is the first input set, `count` the chain's length.

        Raises:
            Ruling: a timed run gave other outputs than the verified ones, or the side failed.
        """


@dataclass(frozen=True)
class Schedule:
    """How each side's samples are taken, chosen from the warm-up."""

    methods: Mapping[SideName, Method]
    samples: Mapping[SideName, int]
    counts: Mapping[SideName, int]
    overhead_us: Mapping[SideName, float]

    @property
    def method(self) -> str:
        """`events`, `chain`, or both with the slow side's first; for the record."""
        return "/".join(dict.fromkeys(self.methods[side] for side in SIDES))


@dataclass
class Samples:
    """All samples by side and block, in microseconds, and the estimate from them."""

    method: str
    blocks: dict[SideName, list[tuple[float, ...]]] = field(default_factory=lambda: {"slow": [], "fast": []})
    estimate: Speedup | None = None
    settled: bool = False
    wall_s: float = 0.0

    def median_us(self, side: SideName) -> float:
        """The median of one side's samples."""
        return statistics.median_us(self.blocks[side])


@dataclass(frozen=True)
class TimingConfig:
    """Seed, and overheads to subtract: an event pair around a plan, an event pair around a chain, and the
    step between runs of a chain. `chain_runs`: the longest possible chain (0: none).
    """

    seed: int
    event_overhead_us: float = 0.0
    chain_overhead_us: float = 0.0
    chain_step_us: float = 0.0
    chain_runs: int = CHAIN_RUNS[1]


def measure(
    samplers: Mapping[SideName, Sampler], config: TimingConfig, margin: Callable[[float], float]
) -> Samples:
    """Time both sides against each other. `margin(us)`: the difference to exceed at this duration.

    Raises:
        Ruling: a side failed, from the samplers.
    """
    started = time.perf_counter()
    rng = random.Random(config.seed)
    schedule = _schedule(samplers, config)
    on_both_sides(lambda side: samplers[side].ready(schedule.methods[side], schedule.counts[side]))
    samples = Samples(schedule.method)
    while True:
        _one_round(samplers, schedule, samples, rng)
        count = len(samples.blocks["fast"])
        samples.wall_s = time.perf_counter() - started
        out_of_time = samples.wall_s >= (
            time_limits.TIMING_S if count >= statistics.MIN_BLOCKS else time_limits.TIMING_HARD_S
        )
        if not out_of_time and (count < statistics.MIN_BLOCKS or count % CHECK_EVERY):
            continue
        samples.estimate = _estimate(samples, config.seed, margin)
        if samples.estimate is None:
            return samples
        samples.settled = (
            statistics.tight(samples.estimate)
            and count >= statistics.MIN_BLOCKS
            and statistics.decide(samples.estimate) != "ambiguous_timing"
        )
        if samples.settled or count >= statistics.MAX_BLOCKS or out_of_time:
            return samples


def _estimate(samples: Samples, seed: int, margin: Callable[[float], float]) -> Speedup | None:
    """The estimate so far; None if a side is too short to report a speedup."""
    slow, fast = samples.blocks["slow"], samples.blocks["fast"]
    shortest = min(samples.median_us(side) for side in SIDES)
    if shortest < SHORTEST_US or not statistics.log_ratios(slow, fast).size:
        return None
    return statistics.speedup(slow, fast, margin=margin(shortest), seed=seed)


def _one_round(
    samplers: Mapping[SideName, Sampler], schedule: Schedule, samples: Samples, rng: random.Random
) -> None:
    """One block of each side, in random order."""
    order = list(SIDES)
    rng.shuffle(order)
    first = rng.randrange(1 << 16)
    for side in order:
        method = schedule.methods[side]
        times = samplers[side].block(method, schedule.samples[side], first, schedule.counts[side])
        samples.blocks[side].append(tuple(t - schedule.overhead_us[side] for t in times))


def _schedule(samplers: Mapping[SideName, Sampler], config: TimingConfig) -> Schedule:
    """Warm both sides up, and choose methods and counts from their durations."""
    estimates_us = {side: max(0.1, _warm_up(samplers[side]) - config.event_overhead_us) for side in SIDES}
    methods: dict[SideName, Method] = dict.fromkeys(SIDES, "events")
    if config.chain_runs >= CHAIN_RUNS[0] and min(estimates_us.values()) < CHAIN_BELOW_US:
        short = [side for side in SIDES if estimates_us[side] < CHAIN_TOGETHER * CHAIN_BELOW_US]
        methods |= dict.fromkeys(short, "chain")
    counts = {side: _chain_runs(us, estimates_us, config) for side, us in estimates_us.items()}
    samples: dict[SideName, int] = {}
    overhead_us: dict[SideName, float] = {}
    for side, us in estimates_us.items():
        chained = methods[side] == "chain"
        each_us = FLUSH_US + (counts[side] * us if chained else us)
        most = CHAINS_PER_BLOCK if chained else SAMPLES_PER_BLOCK
        samples[side] = max(1, min(most, int(BLOCK_US / each_us)))
        chain_us = config.chain_overhead_us / counts[side] + config.chain_step_us
        overhead_us[side] = chain_us if chained else config.event_overhead_us
    return Schedule(methods, samples, counts, overhead_us)


def _chain_runs(us: float, estimates_us: Mapping[SideName, float], config: TimingConfig) -> int:
    """The runs of a side's chain; similar sides get chains of equal length."""
    if max(estimates_us.values()) < SIMILAR * min(estimates_us.values()):
        us = min(estimates_us.values())
    wanted = math.ceil(CHAIN_TOTAL_US / us)
    return max(CHAIN_RUNS[0], min(CHAIN_RUNS[1], config.chain_runs, wanted))


def _warm_up(sampler: Sampler) -> float:
    """Run until times have settled; the last group's median in microseconds."""
    spent, last = 0.0, math.inf
    count = 1
    for _ in range(MAX_WARM_UP_GROUPS):
        group = sampler.block("events", count, 0, 0)
        median = statistics.median_us([group])
        spent += sum(group) + FLUSH_US * len(group)
        if spent >= WARM_UP_US and abs(median - last) <= SETTLED * median:
            break
        if median > WARM_UP_US and count == 1 and spent > 2 * median:
            break
        count = max(1, min(4 * SAMPLES_PER_BLOCK, int(WARM_UP_US / max(median, 1.0))))
        last = median
    return median
