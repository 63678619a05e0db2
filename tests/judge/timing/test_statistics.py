"""The speedup's interval on synthetic samples with a known ratio."""

from __future__ import annotations

import numpy as np
import pytest

from kcurate.judge.timing import statistics


def blocks(rng: np.random.Generator, ratio: float, count: int, noise: float) -> tuple[list, list]:
    """Blocks of 8 samples per side around `ratio`, with clock drift and slow outliers."""
    drift = np.exp(np.cumsum(rng.normal(0, 0.01, count)))[:, None]
    spikes = 1 + (rng.random((2, count, 8)) < 0.05) * rng.random((2, count, 8))
    slow = 100 * ratio * drift * np.exp(rng.normal(0, noise, (count, 8))) * spikes[0]
    fast = 100 * drift * np.exp(rng.normal(0, noise, (count, 8))) * spikes[1]
    return slow.tolist(), fast.tolist()


def test_the_interval_has_its_nominal_coverage() -> None:
    rng = np.random.default_rng(1)
    trials, covered = 300, 0
    for trial in range(trials):
        slow, fast = blocks(rng, 1.3, 40, 0.02)
        found = statistics.speedup(slow, fast, margin=0.02, seed=trial)
        covered += found.low <= 1.3 <= found.high
    # 98% nominal; percentile intervals of a median over 40 blocks cover slightly less.
    assert covered / trials >= 0.95


def test_equal_sides_are_not_confirmed() -> None:
    rng = np.random.default_rng(2)
    outcomes = []
    for trial in range(300):
        slow, fast = blocks(rng, 1.0, 20, 0.03)
        outcomes.append(statistics.decide(statistics.speedup(slow, fast, margin=0.02, seed=trial)))
    assert outcomes.count("confirmed") == 0
    assert outcomes.count("not_faster") > 200


def test_three_percent_is_confirmed_with_little_noise() -> None:
    rng = np.random.default_rng(3)
    outcomes = []
    for trial in range(100):
        slow, fast = blocks(rng, 1.03, 20, 0.003)
        outcomes.append(statistics.decide(statistics.speedup(slow, fast, margin=0.02, seed=trial)))
    assert outcomes.count("confirmed") >= 95


def test_clock_drift_cancels() -> None:
    rng = np.random.default_rng(4)
    clock = np.linspace(1.0, 3.0, 30)[:, None]
    slow = 200 * clock * np.exp(rng.normal(0, 0.001, (30, 8)))
    fast = 100 * clock * np.exp(rng.normal(0, 0.001, (30, 8)))
    found = statistics.speedup(slow.tolist(), fast.tolist(), margin=0.02, seed=0)
    assert found.ratio == pytest.approx(2.0, rel=0.002)
    assert statistics.tight(found)


def test_the_same_seed_gives_the_same_interval() -> None:
    slow, fast = blocks(np.random.default_rng(5), 1.5, 25, 0.05)
    first = statistics.speedup(slow, fast, margin=0.02, seed=7)
    assert statistics.speedup(slow, fast, margin=0.02, seed=7) == first
    assert statistics.speedup(slow, fast, margin=0.02, seed=8) != first


def test_blocks_without_positive_times_are_left_out() -> None:
    values = statistics.log_ratios([[2.0], [0.0], [-1.0]], [[1.0], [1.0], [1.0]])
    assert values == pytest.approx([np.log(2.0)])
    with pytest.raises(ValueError, match="no blocks"):
        statistics.speedup([[0.0]], [[1.0]], margin=0.02, seed=0)


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (1.021, 1.2, "confirmed"),
        (1.0, 1.019, "not_faster"),
        (0.5, 0.6, "not_faster"),
        (1.01, 1.05, "ambiguous_timing"),
        (1.02, 1.05, "ambiguous_timing"),
    ],
)
def test_outcome_follows_the_interval_and_the_margin(low: float, high: float, outcome: str) -> None:
    estimate = statistics.Speedup(ratio=1.0, low=low, high=high, confidence=0.98, blocks=20, margin=0.02)
    assert statistics.decide(estimate) == outcome
