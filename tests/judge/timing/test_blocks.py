"""The timing protocol on samplers with known durations."""

from __future__ import annotations

import random

import pytest

from kcurate.judge.timing import blocks, statistics
from kcurate.judge.timing.blocks import TimingConfig, measure
from kcurate.records.pair import SideName


class Side:
    """A side of `us` with noise; events read 2 us more, chains 1 us more per run and 16 us per chain."""

    def __init__(self, us: float, seed: int, noise: float = 0.005) -> None:
        self.us, self.noise = us, noise
        self.rng = random.Random(seed)
        self.asked: list[tuple[str, int, int]] = []
        self.made = 0

    def ready(self, method: blocks.Method, count: int) -> None:
        self.made = count if method == "chain" else 0

    def block(self, method: blocks.Method, samples: int, first: int, count: int) -> list[float]:
        self.asked.append((method, samples, count))
        assert method == "events" or count == self.made, "the chain was not built before the first block"
        overhead = 2.0 if method == "events" else 16.0 / count + 1.0
        return [self.us * (1 + self.rng.gauss(0, self.noise)) + overhead for _ in range(samples)]


CLOCK = {"event_overhead_us": 2.0, "chain_overhead_us": 16.0, "chain_step_us": 1.0}


def run(slow_us: float, fast_us: float, *, noise: float = 0.005, chain_runs: int = 64) -> blocks.Samples:
    sides: dict[SideName, Side] = {"slow": Side(slow_us, 1, noise), "fast": Side(fast_us, 2, noise)}
    found = measure(sides, TimingConfig(seed=3, chain_runs=chain_runs, **CLOCK), lambda _: 0.02)
    for side in ("slow", "fast"):
        assert len(found.blocks[side]) == len(found.blocks["slow"])
    return found


@pytest.mark.parametrize(
    ("slow_us", "fast_us", "method"),
    [
        (300.0, 200.0, "events"),
        (6.0, 3.0, "chain"),
        (30.0, 3.0, "chain"),
        (11.0, 9.9, "chain"),
        (500.0, 3.0, "events/chain"),
        (3.0, 500.0, "chain/events"),
    ],
)
def test_method_follows_the_durations_and_overheads_cancel(
    slow_us: float, fast_us: float, method: str
) -> None:
    found = run(slow_us, fast_us)
    assert found.method == method
    assert found.estimate is not None
    assert found.estimate.ratio == pytest.approx(slow_us / fast_us, rel=0.01)
    assert found.median_us("fast") == pytest.approx(fast_us, rel=0.01)


def test_timing_stops_when_the_interval_is_tight_after_the_minimum_of_blocks() -> None:
    quiet, noisy = run(90.0, 80.0, noise=0.001), run(90.0, 80.0, noise=0.2)
    assert len(quiet.blocks["fast"]) == statistics.MIN_BLOCKS
    assert quiet.settled
    assert len(noisy.blocks["fast"]) == statistics.MAX_BLOCKS


def test_a_plan_that_cannot_be_chained_is_timed_by_events() -> None:
    assert run(4.0, 3.0, chain_runs=0).method == "events"


def test_long_sides_get_fewer_samples_per_block() -> None:
    sides: dict[SideName, Side] = {"slow": Side(200_000.0, 1), "fast": Side(100.0, 2)}
    measure(sides, TimingConfig(seed=0, **CLOCK), lambda _: 0.02)
    assert sides["slow"].asked[-1][1] == 1
    assert sides["fast"].asked[-1][1] == blocks.SAMPLES_PER_BLOCK


def test_chain_length_follows_duration_but_similar_sides_get_equal_chains() -> None:
    sides: dict[SideName, Side] = {"slow": Side(18.0, 1), "fast": Side(4.0, 2)}
    measure(sides, TimingConfig(seed=0, **CLOCK), lambda _: 0.02)
    assert (sides["slow"].made, sides["fast"].made) == (12, 51)
    sides = {"slow": Side(5.0, 1), "fast": Side(4.0, 2)}
    measure(sides, TimingConfig(seed=0, **CLOCK), lambda _: 0.02)
    assert sides["slow"].made == sides["fast"].made


def test_too_short_sides_get_no_estimate() -> None:
    assert run(0.2, 0.1, noise=0.0).estimate is None


def test_sides_alternate_in_random_order() -> None:
    order: list[SideName] = []

    class Noting(Side):
        def __init__(self, name: SideName) -> None:
            super().__init__(90.0, 1)
            self.name = name

        def block(self, method: blocks.Method, samples: int, first: int, count: int) -> list[float]:
            order.append(self.name)
            return super().block(method, samples, first, count)

    measure({"slow": Noting("slow"), "fast": Noting("fast")}, TimingConfig(seed=5), lambda _: 0.02)
    rounds = order[-2 * statistics.MIN_BLOCKS :]
    pairs = [tuple(rounds[i : i + 2]) for i in range(0, len(rounds), 2)]
    assert {("slow", "fast"), ("fast", "slow")} == set(pairs)
