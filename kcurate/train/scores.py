"""Statistics of judged completions: rates with intervals, a mean reward with one, counts per outcome.

Rates have Wilson's interval over completions. The mean reward has a cluster bootstrap over tasks, since
completions for one task are correlated. Not covered: sampling the model (`measure`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kcurate.train.reward.answers import Refusal
from kcurate.train.reward.schemes import OURS, STANDINGS
from kcurate.train.task import Judged

# Two-sided 95% of the normal distribution.
Z = 1.959964
RESAMPLES = 2000
# A completion that returns the given kernel. It compiles and is correct, so it has a column of its own.
COPIED = Refusal.COPIED.value


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Row:
    """One line of the table: a model on the held-out tasks. `timed` False: `faster` is unknown."""

    name: str
    model: str
    tasks: int
    samples: int
    compiles: Estimate
    correct: Estimate
    faster: Estimate
    copied: Estimate
    reward: Estimate
    outcomes: Mapping[str, int]
    timed: bool
    generate_s: float
    judge_s: float


def wilson(hits: int, count: int) -> Estimate:
    """A rate with Wilson's interval; `count` is at least 1."""
    share, z2 = hits / count, Z * Z
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = Z / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count * count))
    return Estimate(share, max(0.0, middle - half), min(1.0, middle + half))


def mean_by_task(values: Sequence[float], tasks: Sequence[str], seed: int = 0) -> Estimate:
    """The mean over all completions, with a percentile bootstrap that resamples whole tasks."""
    names = sorted(set(tasks))
    place = {name: i for i, name in enumerate(names)}
    sums, counts = np.zeros(len(names)), np.zeros(len(names))
    for value, task in zip(values, tasks, strict=True):
        sums[place[task]] += value
        counts[place[task]] += 1
    resampled = np.random.default_rng(seed).integers(0, len(names), (RESAMPLES, len(names)))
    means = sums[resampled].sum(axis=1) / counts[resampled].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(sums.sum() / counts.sum()), float(low), float(high))


def row(
    name: str, model: str, judged: Sequence[Judged], *, timed: bool, generate_s: float, judge_s: float
) -> Row:
    """The line of the table. Completions that the harness failed to judge are counted but not in the rates.

    Raises:
        ValueError: nothing was judged.
    """
    outcomes = Counter(one.outcome for one in judged)
    known = [one for one in judged if one.outcome != OURS]
    if not known:
        raise ValueError("no completion was judged")

    def rate(holds: Callable[[str], bool]) -> Estimate:
        return wilson(sum(holds(one.outcome) for one in known), len(known))

    return Row(
        name=name,
        model=model,
        tasks=len({one.task_id for one in known}),
        samples=len(known),
        compiles=rate(lambda outcome: STANDINGS[outcome].compiles),
        correct=rate(lambda outcome: STANDINGS[outcome].correct),
        faster=rate(lambda outcome: STANDINGS[outcome].faster),
        copied=rate(lambda outcome: outcome == COPIED),
        reward=mean_by_task([one.reward for one in known], [one.task_id for one in known]),
        outcomes=dict(sorted(outcomes.items())),
        timed=timed,
        generate_s=round(generate_s, 2),
        judge_s=round(judge_s, 2),
    )


def markdown(rows: Sequence[Row]) -> str:
    """The table as Markdown; empty when there are no rows."""
    if not rows:
        return ""
    lines = [
        "| model | completions | compiles | correct | of these copied | faster | mean reward |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        faster = _percent(one.faster) if one.timed else "not timed"
        lines.append(
            f"| {one.name} | {one.samples} for {one.tasks} tasks | {_percent(one.compiles)} | "
            f"{_percent(one.correct)} | {_percent(one.copied)} | {faster} | {one.reward} |"
        )
    return "\n".join(lines) + "\n"


def _percent(one: Estimate) -> str:
    return f"{100 * one.value:.1f}% [{100 * one.low:.1f}, {100 * one.high:.1f}]"
