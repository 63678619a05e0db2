"""Two models on the same tasks: the differences of their numbers, paired by task, by family.

Not covered: the numbers of one model (`scores`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from kcurate.errors import InputError
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.intervals import Estimate, detectable, mean
from kcurate.evaluation.scores import Group, Sample, grouped

DIFFERENCE = (-1.0, 1.0)
# What is compared: the mean over a task's samples of each; the last two have no bounds.
_COMPARED: Mapping[str, Callable[[Sample], float | None]] = {
    "compiles": lambda sample: float(sample.compiles),
    "correct": lambda sample: float(sample.correct),
    "copied": lambda sample: float(sample.copied),
    "faster": lambda sample: float(sample.faster_than(1.0)),
    "attained": lambda sample: sample.attained,
    "log speedup": lambda sample: sample.gain,
    "reward": lambda sample: sample.reward,
}
_UNBOUNDED = ("log speedup", "reward")
_TIMED = ("faster", "attained", "log speedup")


@dataclass(frozen=True)
class Difference:
    """One number of both, and the second less the first.

    `detectable`: the difference that a comparison of this size finds four times in five.
    """

    name: str
    first: float
    second: float
    difference: Estimate
    detectable: float | None


@dataclass(frozen=True)
class Comparison:
    """The tasks that both have, and the differences on them. `left_out`: tasks that only one has."""

    tasks: int
    families: int
    left_out: int
    differences: Sequence[Difference]


def compare(
    first: Sequence[Completion], second: Sequence[Completion], *, timed: bool, one_reward: bool = True
) -> Comparison:
    """The second model less the first, on the tasks that both were asked.

    `one_reward` False: their rewards are of different schemes, so that these are not compared.

    Raises:
        InputError: there is no such task.
    """
    groups, other = ({group.task: group for group in grouped(rows)} for rows in (first, second))
    asked, given_other = ({row.task: row.given for row in rows} for rows in (first, second))
    both = [task for task in sorted(groups) if task in other and asked[task] == given_other[task]]
    if not both:
        raise InputError("no task is in both", where="eval compare", hint="evaluate both on the same tasks")
    families = [groups[task].family for task in both]
    pairs = [(groups[task], other[task]) for task in both]
    names = [name for name in _COMPARED if (timed or name not in _TIMED) and (one_reward or name != "reward")]
    differences = [_difference(name, pairs, families) for name in names]
    left_out = len({*groups, *other}) - len(both)
    return Comparison(
        len(both), len(set(families)), left_out, [each for each in differences if each is not None]
    )


def _difference(
    name: str, pairs: Sequence[tuple[Group, Group]], families: Sequence[str]
) -> Difference | None:
    """None if a number is not known for any task."""
    values = [tuple(_mean(name, group) for group in pair) for pair in pairs]
    kept = [
        (a, b, family)
        for (a, b), family in zip(values, families, strict=True)
        if a is not None and b is not None
    ]
    if not kept:
        return None
    apart, of = [b - a for a, b, _ in kept], [family for *_, family in kept]
    bounds = None if name in _UNBOUNDED else DIFFERENCE
    return Difference(
        name,
        fmean(a for a, _, _ in kept),
        fmean(b for _, b, _ in kept),
        mean(apart, of, bounds),
        detectable(apart, of),
    )


def _mean(name: str, group: Group) -> float | None:
    values = [_COMPARED[name](sample) for sample in group.samples]
    return None if any(value is None for value in values) else fmean(value or 0.0 for value in values)
