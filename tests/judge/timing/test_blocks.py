"""The timing protocol on samplers with known durations."""

from __future__ import annotations

import random

import pytest

from kcurate.core import time_limits
from kcurate.judge.timing import blocks, statistics
from kcurate.judge.timing.blocks import TimingConfig, measure
from kcurate.records.pair import SideName

RESTORE_US = 200.0
spent_us = 0.0


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that only samples advance."""
    monkeypatch.setattr(blocks, "wall_clock", lambda: 1e-6 * spent_us)


class Side:
    """A side of `us` with noise; an event pair reads 2 us more, around a graph 2.5 us."""

    def __init__(self, us: float, seed: int, noise: float = 0.005, *, graph: bool = False) -> None:
        self.us, self.noise, self.graph = us, noise, graph
        self.rng = random.Random(seed)
        self.asked: list[int] = []

    def block(self, samples: int, first: int) -> list[float]:
        self.asked.append(samples)
        global spent_us
        overhead = 2.5 if self.graph else 2.0
        spent_us += samples * (self.us + RESTORE_US)
        return [self.us * (1 + self.rng.gauss(0, self.noise)) + overhead for _ in range(samples)]


CLOCK = {"event_overhead_us": 2.0, "graph_overhead_us": 2.5}


def run(slow_us: float, fast_us: float, *, noise: float = 0.005, graph: bool = False) -> blocks.Samples:
    sides: dict[SideName, Side] = {
        "slow": Side(slow_us, 1, noise, graph=graph),
        "fast": Side(fast_us, 2, noise),
    }
    found = measure(sides, TimingConfig(seed=3, **CLOCK), lambda _: 0.02)
    for side in ("slow", "fast"):
        assert len(found.blocks[side]) == len(found.blocks["slow"])
    return found


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(("slow_us", "fast_us"), [(300.0, 200.0), (12.0, 6.0), (11.0, 9.9), (500.0, 8.0)])
def test_overheads_cancel(slow_us: float, fast_us: float, graph: bool) -> None:
    found = run(slow_us, fast_us, graph=graph)
    assert found.estimate is not None
    assert found.estimate.ratio == pytest.approx(slow_us / fast_us, rel=0.01)
    assert found.median_us("fast") == pytest.approx(fast_us, rel=0.01)


def test_timing_stops_when_the_interval_is_tight_after_the_minimum_of_blocks() -> None:
    quiet, noisy = run(90.0, 80.0, noise=0.001), run(90.0, 80.0, noise=0.8)
    assert len(quiet.blocks["fast"]) == statistics.MIN_BLOCKS
    assert quiet.settled
    assert len(noisy.blocks["fast"]) == statistics.MAX_BLOCKS


@pytest.mark.parametrize(
    ("slow_us", "fast_us", "samples", "count"),
    [
        (90.0, 80.0, (4, 4), statistics.MIN_BLOCKS),
        (900.0, 80.0, (4, 4), statistics.MIN_BLOCKS),
        (9_000.0, 5_000.0, (1, 1), 8),
        (200_000.0, 100.0, (1, 4), statistics.MIN_BLOCKS),
    ],
)
def test_long_sides_get_fewer_samples_and_blocks(
    slow_us: float, fast_us: float, samples: tuple[int, int], count: int
) -> None:
    sides: dict[SideName, Side] = {"slow": Side(slow_us, 1, 0.0), "fast": Side(fast_us, 2, 0.0)}
    found = measure(sides, TimingConfig(seed=0, **CLOCK), lambda _: 0.02)
    assert (sides["slow"].asked[-1], sides["fast"].asked[-1]) == samples
    assert len(found.blocks["slow"]) == count


def test_too_short_sides_get_no_estimate() -> None:
    assert run(9.0, 4.9, noise=0.0).estimate is None
    assert run(9.0, 5.1, noise=0.0).estimate is not None


def test_sides_alternate_in_random_order() -> None:
    order: list[SideName] = []

    class Noting(Side):
        def __init__(self, name: SideName) -> None:
            super().__init__(90.0, 1)
            self.name = name

        def block(self, samples: int, first: int) -> list[float]:
            order.append(self.name)
            return super().block(samples, first)

    measure({"slow": Noting("slow"), "fast": Noting("fast")}, TimingConfig(seed=5), lambda _: 0.02)
    rounds = order[-2 * statistics.MIN_BLOCKS :]
    pairs = [tuple(rounds[i : i + 2]) for i in range(0, len(rounds), 2)]
    assert {("slow", "fast"), ("fast", "slow")} == set(pairs)


@pytest.mark.parametrize(("us", "groups"), [(20.0, 5), (200_000.0, 1)])
def test_a_steady_side_is_warm_soon(us: float, groups: int) -> None:
    """Short sides run until 3 ms are spent and two groups agree, long ones once."""
    sides: dict[SideName, Side] = {"slow": Side(us, 1, 0.0), "fast": Side(us, 2, 0.0)}
    found = measure(sides, TimingConfig(seed=0, **CLOCK), lambda _: 0.02)
    assert len(sides["slow"].asked) - len(found.blocks["slow"]) == groups


def test_a_block_of_a_short_side_has_four_samples() -> None:
    side = Side(20.0, 1, 0.0)
    measure({"slow": side, "fast": Side(20.0, 2, 0.0)}, TimingConfig(seed=0, **CLOCK), lambda _: 0.02)
    assert side.asked[-1] == blocks.SAMPLES_PER_BLOCK == 4


def test_timing_ends_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limits, "TIMING_S", 0.0)
    assert len(run(90.0, 80.0, noise=0.2).blocks["fast"]) == statistics.MIN_BLOCKS
    monkeypatch.setattr(time_limits, "TIMING_HARD_S", 0.0)
    assert len(run(90.0, 80.0, noise=0.2).blocks["fast"]) == 1
