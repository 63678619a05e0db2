"""What differences the experiment can find: simulated outcomes of two arms, clustered by family.

    python benchmarks/power.py            # the table of docs/results/training.md; a minute or two

An arm answers every task several times. The chance of an answer differs between families as a beta
distribution does, with a correlation of `CORRELATION` between two tasks of a family; half of what a family
adds is common to both arms, since they are asked the same. A difference is found if its 95% interval by
family (`kcurate.evaluation.intervals`) excludes 0. Printed is the smallest one that 80% of the runs find.
Not covered: whether outcomes are like these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from kcurate.evaluation import intervals

# Between two tasks of a family, as in the first run of all.
CORRELATION = 0.5
RUNS, STEPS, POWER = 200, 7, 0.8
TASKS, FAMILIES, SAMPLES = 100, 50, 4
Array = np.ndarray[Any, np.dtype[np.float64]]
Make = Callable[[float, tuple[int, int]], Array]
# Outcome, its share in `base`, tasks, families, samples a task; any: whether one of the samples is enough.
SHARES = (
    ("preferred", 0.5, 100, 25, 1, False),
    ("compiles", 0.78, TASKS, FAMILIES, SAMPLES, False),
    ("right and no copy", 0.04, TASKS, FAMILIES, SAMPLES, False),
    ("pass@1 of fast_1.2", 0.01, TASKS, FAMILIES, SAMPLES, False),
    ("pass@4 of fast_1.2", 0.03, TASKS, FAMILIES, SAMPLES, True),
)


def families_of(tasks: int, families: int) -> list[str]:
    """The family of each task: sizes fall as those of the pairs do, from a few large ones to many of one."""
    sizes = np.maximum(1, np.round(2 * tasks / families / np.arange(1, families + 1) ** 0.7)).astype(int)
    names = [f"family-{i}" for i, size in enumerate(sizes) for _ in range(size)]
    return [*names, *(f"family-{i % families}" for i in range(tasks))][:tasks]


def chances(share: float, families: list[str], draws: Array) -> Array:
    """The chance of each task, from uniform draws for its family: Beta with `CORRELATION`."""
    from scipy.stats import beta

    scale = (1 - CORRELATION) / CORRELATION
    names, index = np.unique(np.array(families), return_inverse=True)
    of_family: Array = beta.ppf(draws[: len(names)], share * scale, (1 - share) * scale)
    return of_family[index]


def share_arm(
    share: float, families: list[str], samples: int, any_: bool, rise: float, seeds: tuple[int, int]
) -> Array:
    """The outcomes of one arm; `seeds`: what both arms have in common, and what only this one has."""
    from scipy.stats import norm

    common, own = (np.random.default_rng(seed) for seed in seeds)
    size = len(families)
    draws = norm.cdf((common.standard_normal(size) + own.standard_normal(size)) / np.sqrt(2))
    # Of "any of several" the chance of one is what makes the share of tasks.
    hits = own.binomial(1 if any_ else samples, chances(share + rise, families, draws))
    return hits / (1 if any_ else samples)


def spread_arm(families: list[str], shift: float, seeds: tuple[int, int]) -> Array:
    """A number a task with a standard deviation of 1 between the arms, `CORRELATION` of it the family's."""
    own = np.random.default_rng(seeds[1])
    _, index = np.unique(np.array(families), return_inverse=True)
    of_family = own.standard_normal(index.max() + 1)[index]
    noise = np.sqrt(CORRELATION) * of_family + np.sqrt(1 - CORRELATION) * own.standard_normal(len(index))
    return shift + noise / np.sqrt(2)


def found(make: Make, rise: float, families: list[str], bounded: bool) -> float:
    """The share of the runs whose interval of the difference lies above 0."""
    wins = 0
    for number in range(RUNS):
        apart = make(rise, (number, 2 * number + 10**6)) - make(0.0, (number, 2 * number + 10**6 + 1))
        low = intervals.mean(list(apart), families, (-1.0, 1.0) if bounded else None).low
        wins += low is not None and low > 0
    return wins / RUNS


def detectable(make: Make, families: list[str], most: float, bounded: bool) -> float | None:
    """The smallest rise up to `most` that is found in `POWER` of the runs; None: not even that one."""
    if found(make, most, families, bounded) < POWER:
        return None
    low, high = 0.0, most
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if found(make, middle, families, bounded) >= POWER else (middle, high)
    return high


def main() -> None:
    """Print the table."""
    intervals.RESAMPLES = 300
    print("| outcome | tasks, families, samples | in `base` | a rise found in 80% of runs |")
    print("|---|---|---:|---:|")
    for tasks in (300, 100):
        families = families_of(tasks, FAMILIES)
        size = detectable(partial(spread_arm, families), families, 3.0, bounded=False)
        told = f"{size:.2f} standard deviations of a task's difference"
        print(f"| nats a token | {tasks}, {FAMILIES}, 1 | | {told} |", flush=True)
    for name, share, tasks, count, samples, any_ in SHARES:
        families = families_of(tasks, count)
        make = partial(share_arm, share, families, samples, any_)
        size = detectable(make, families, min(0.6, 0.98 - share), bounded=True)
        told = "more than possible" if size is None else f"{100 * size:.0f} points"
        print(f"| {name} | {tasks}, {count}, {samples} | {share:.0%} | {told} |", flush=True)


if __name__ == "__main__":
    main()
