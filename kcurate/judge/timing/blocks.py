"""The timing protocol: which samples are taken, until when, and what is made of them.

Two workers, one a side, never share a CUDA context; they take turns, one block of samples each, in random
order within a pair of blocks, while this process holds the GPU alone. Method `events`: a pair of events
around each run. Method `chain` (a side under 50 us, and the other one too unless it is much longer): a CUDA
graph of many runs less the same graph without them. Stops when the interval is tight, at 100 blocks, or when
the time is up. Not covered: taking a sample (`kcurate.judge.workers.inside.sampler`), the arithmetic of the
interval (`kcurate.judge.timing.statistics`).
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
from kcurate.judge.workers.side_proxy import both_sides
from kcurate.records import Speedup
from kcurate.records.pair import SIDES, SideName

Method = Literal["events", "chain"]

# Under this, an event pair's own cost and jitter (4.2 to 5.2 us around an empty kernel on an H200,
# November 2026) are a large part of what it reads.
#
# Between 10 and 50 us the event pair's reading still jumps by 1 to 2% from process to process, a chain's by
# 0.3% (A against A, same GPU and date).
CHAIN_BELOW_US = 50.0
# Beside a side that short, one up to this many times as long is timed in the same way.
CHAIN_TOGETHER = 4.0
# Nothing is claimed of a side that takes less.
SHORTEST_US = 0.3
# How often the interval is looked at, in blocks.
LOOK_EVERY = 4
SAMPLES_PER_BLOCK = 8
# A chain is an average of many runs already.
CHAINS_PER_BLOCK = 1
# A block of one side should not take much longer than this.
BLOCK_US = 20_000.0
CHAIN_TOTAL_US = 200.0
# Runs in a chain, at least and at most.
CHAIN_RUNS = (8, 64)
# Sides that differ by less get chains of one length, so that nothing but the sides differs.
ALIKE = 1.5
# About what flushing before each sample takes (H200, November 2026).
FLUSH_US = 60.0
WARM_UP_US = 3_000.0
# Warm-up ends when two groups of samples agree this well.
SETTLED = 0.01
MAX_WARM_UP_GROUPS = 40


class Sampler(Protocol):
    """One side's worker, as timing sees it."""

    def ready(self, method: Method, count: int) -> None:
        """Make what `block` will need; both sides' may be asked at once, from different threads."""

    def block(self, method: Method, samples: int, first: int, count: int) -> list[float]:
        """Take samples; microseconds. `count` is the chain's length.

        Raises:
            Ruling: a timed run gave other outputs, or the side failed.
        """


@dataclass(frozen=True)
class Plan:
    """How samples are taken, decided from a first look at both sides."""

    methods: Mapping[SideName, Method]
    samples: Mapping[SideName, int]
    counts: Mapping[SideName, int]
    overhead_us: Mapping[SideName, float]

    @property
    def method(self) -> str:
        """For the record: `events`, `chain`, or both, the slow side's first."""
        return "/".join(dict.fromkeys(self.methods[side] for side in SIDES))


@dataclass
class Samples:
    """Raw samples, block by block, in microseconds; what timing has so far."""

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
    """Seed, and what this machine's clock costs: an event pair around a plan, an event pair around a chain
    and the step from run to run in it. `chain_runs`: the longest possible chain (0: none).
    """

    seed: int
    event_overhead_us: float = 0.0
    chain_overhead_us: float = 0.0
    chain_step_us: float = 0.0
    chain_runs: int = CHAIN_RUNS[1]


def measure(
    samplers: Mapping[SideName, Sampler], config: TimingConfig, margin: Callable[[float], float]
) -> Samples:
    """Time both sides against each other. `margin` gives what a duration in us must be exceeded by.

    Raises:
        Ruling: from the samplers.
    """
    started = time.perf_counter()
    rng = random.Random(config.seed)
    plan = _plan(samplers, config)
    both_sides(lambda side: samplers[side].ready(plan.methods[side], plan.counts[side]))
    samples = Samples(plan.method)
    while True:
        _one_round(samplers, plan, samples, rng)
        count = len(samples.blocks["fast"])
        samples.wall_s = time.perf_counter() - started
        out_of_time = samples.wall_s >= (
            time_limits.TIMING_S if count >= statistics.MIN_BLOCKS else time_limits.TIMING_HARD_S
        )
        if not out_of_time and (count < statistics.MIN_BLOCKS or count % LOOK_EVERY):
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
    """None when a side is shorter than anything can be claimed of."""
    slow, fast = samples.blocks["slow"], samples.blocks["fast"]
    shortest = min(samples.median_us(side) for side in SIDES)
    if shortest < SHORTEST_US or not statistics.log_ratios(slow, fast).size:
        return None
    return statistics.speedup(slow, fast, margin=margin(shortest), seed=seed)


def _one_round(
    samplers: Mapping[SideName, Sampler], plan: Plan, samples: Samples, rng: random.Random
) -> None:
    """One block of each side, in random order."""
    order = list(SIDES)
    rng.shuffle(order)
    first = rng.randrange(1 << 16)
    for side in order:
        method = plan.methods[side]
        times = samplers[side].block(method, plan.samples[side], first, plan.counts[side])
        samples.blocks[side].append(tuple(t - plan.overhead_us[side] for t in times))


def _plan(samplers: Mapping[SideName, Sampler], config: TimingConfig) -> Plan:
    """Warm both sides up, look how long they take, choose."""
    looks = {side: max(0.1, _warm_up(samplers[side]) - config.event_overhead_us) for side in SIDES}
    methods: dict[SideName, Method] = dict.fromkeys(SIDES, "events")
    if config.chain_runs >= CHAIN_RUNS[0] and min(looks.values()) < CHAIN_BELOW_US:
        short = [side for side in SIDES if looks[side] < CHAIN_TOGETHER * CHAIN_BELOW_US]
        methods |= dict.fromkeys(short, "chain")
    counts = {side: _chain_runs(us, looks, config) for side, us in looks.items()}
    samples: dict[SideName, int] = {}
    overhead_us: dict[SideName, float] = {}
    for side, us in looks.items():
        chained = methods[side] == "chain"
        each_us = FLUSH_US + (counts[side] * us if chained else us)
        most = CHAINS_PER_BLOCK if chained else SAMPLES_PER_BLOCK
        samples[side] = max(1, min(most, int(BLOCK_US / each_us)))
        chain_us = config.chain_overhead_us / counts[side] + config.chain_step_us
        overhead_us[side] = chain_us if chained else config.event_overhead_us
    return Plan(methods, samples, counts, overhead_us)


def _chain_runs(us: float, looks: Mapping[SideName, float], config: TimingConfig) -> int:
    """How many runs fill a chain; sides that may be alike get chains of one length."""
    if max(looks.values()) < ALIKE * min(looks.values()):
        us = min(looks.values())
    wanted = math.ceil(CHAIN_TOTAL_US / us)
    return max(CHAIN_RUNS[0], min(CHAIN_RUNS[1], config.chain_runs, wanted))


def _warm_up(sampler: Sampler) -> float:
    """Run until the clock has settled; the last group's median in microseconds."""
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
