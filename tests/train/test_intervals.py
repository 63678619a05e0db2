"""Intervals by family cover the truth about as often as they say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from kcurate.evaluation import intervals

RNG = np.random.default_rng(1)
Drawn = tuple[np.ndarray, np.ndarray]


def families(count: int) -> Drawn:
    """One to six tasks each, so that sizes differ."""
    sizes = RNG.integers(1, 7, count)
    return sizes, np.repeat([str(i) for i in range(count)], sizes)


def shares(truth: float, count: int) -> Drawn:
    """Eight samples a task; a family's chance is from a beta distribution whose correlation is 0.5."""
    sizes, names = families(count)
    return RNG.binomial(8, np.repeat(RNG.beta(truth, 1 - truth, count), sizes)) / 8, names


def numbers(truth: float, count: int) -> Drawn:
    """Half of the variance is the family's."""
    sizes, names = families(count)
    common = np.repeat(RNG.normal(size=count), sizes)
    return truth + np.sqrt(0.5) * (common + RNG.normal(size=len(names))), names


def differences(truth: float, count: int) -> Drawn:
    """Two models, of which the second is like the first in half of the families."""
    sizes, names = families(count)
    first = RNG.beta(0.1, 0.9, count)
    share = 0.1 + 2 * truth
    second = np.where(RNG.random(count) < 0.5, first, RNG.beta(share, 1 - share, count))
    drawn = [RNG.binomial(8, np.repeat(one, sizes)) / 8 for one in (first, second)]
    return drawn[1] - drawn[0], names


def covered(
    draw: Callable[[float, int], Drawn],
    truth: float,
    bounds: tuple[float, float] | None,
    count: int,
    runs: int,
) -> float:
    """The share of intervals that hold the truth."""
    hits = 0
    for run in range(runs):
        values, names = draw(truth, count)
        found = intervals.mean(list(values), list(names), bounds, seed=run)
        assert found.low is not None and found.high is not None
        hits += found.low <= truth <= found.high
    return hits / runs


SHARE, DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)
CASES = {
    **{f"share {p}": partial(covered, shares, p, SHARE) for p in (0.05, 0.1, 0.3, 0.5)},
    "number": partial(covered, numbers, 0.0, None),
    "difference": partial(covered, differences, 0.1, DIFFERENCE),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("count", "least"), [(10, 0.90), (20, 0.93), (40, 0.93)])
@pytest.mark.slow
def test_95_percent_intervals_cover_the_truth(case: str, count: int, least: float) -> None:
    assert CASES[case](count, 1500) >= least


@pytest.mark.parametrize("case", ["share 0.1", "number"])
def test_a_few_intervals_cover_the_truth(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "RESAMPLES", 400)
    assert CASES[case](20, 300) >= 0.9


def test_below_ten_families_there_is_no_interval() -> None:
    names = [str(i) for i in range(9)]
    found = intervals.mean([0.5] * 9, names)
    assert (found.value, found.low, found.high) == (0.5, None, None)
    assert (found.shown(), intervals.detectable([0.5] * 9, names)) == ("0.500", None)
    with pytest.raises(ValueError, match="no task"):
        intervals.mean([], [])


def test_tasks_of_one_family_say_less_than_as_many_families() -> None:
    values = [0.0] * 50 + [1.0] * 50
    alone = intervals.mean(values, [str(i) for i in range(100)])
    together = intervals.mean(values, [str(i // 5) for i in range(100)])
    assert alone.value == together.value == 0.5
    assert together.low is not None and alone.low is not None and alone.low - together.low > 0.05


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_an_interval_of_none_or_all_is_not_a_point(value: float) -> None:
    found = intervals.mean([value] * 20, [str(i) for i in range(20)], SHARE)
    assert found.low is not None and found.high is not None
    assert 0.05 < found.high - found.low < 0.3
    assert found.low <= value <= found.high


def test_a_difference_that_is_said_to_be_detectable_is_found_four_times_in_five() -> None:
    said, hits = [], 0
    for run in range(300):
        values, names = numbers(0.0, 40)
        size = intervals.detectable(list(values), list(names)) or 0.0
        said.append(size)
        values, names = numbers(float(np.mean(said)), 40)
        found = intervals.mean(list(values), list(names), seed=run)
        hits += found.low is not None and found.low > 0
    assert 0.7 < hits / 300 < 0.9


def test_nothing_is_called_detectable_where_nothing_differed() -> None:
    names = [str(i) for i in range(20)]
    assert intervals.detectable([0.0] * 20, names) is None
    assert intervals.detectable([0.0] * 19 + [1.0], names) is not None
