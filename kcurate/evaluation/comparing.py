"""Two models on the same tasks: the differences of their scores, paired by task, with intervals by family.

Not covered: the scores of one model (`scores`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from kcurate.errors import InputError
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.intervals import Estimate, detectable, mean
from kcurate.evaluation.scores import Group, Sample, grouped

# What is compared: of each, the mean over a task's samples.
_COMPARED: Mapping[str, Callable[[Sample], float | None]] = {
    "compiles": lambda sample: float(sample.compiles),
    "correct": lambda sample: float(sample.correct),
    "copied": lambda sample: float(sample.copied),
    "faster": lambda sample: float(sample.faster_than(1.0)),
    "attained": lambda sample: sample.attained,
    "log speedup": lambda sample: sample.gain,
    "reward": lambda sample: sample.reward,
}
# These have no upper bound; the others are shares.
_UNBOUNDED = ("log speedup", "reward")
# These need times.
_TIMED = ("faster", "attained", "log speedup")


@dataclass(frozen=True)
class Difference:
    """One score of both models, and the second minus the first.

    `detectable`: the difference that a comparison of this size finds in four of five repetitions.
    """

    name: str
    first: float
    second: float
    difference: Estimate
    detectable: float | None


@dataclass(frozen=True)
class Comparison:
    """The number of common tasks, and the differences on them. `left_out`: tasks that only one model has."""

    tasks: int
    families: int
    left_out: int
    differences: Sequence[Difference]


def compare(
    first: Sequence[Completion], second: Sequence[Completion], *, timed: bool, one_reward: bool = True
) -> Comparison:
    """The second model minus the first, on the tasks that both were asked.

    `one_reward` False: they were scored by different reward schemes, so rewards are not compared.

    Raises:
        InputError: there is no such task.
    """
    of_first, of_second = ({group.task: group for group in grouped(rows)} for rows in (first, second))
    first_given, second_given = ({row.task: row.given for row in rows} for rows in (first, second))
    both = [
        task for task in sorted(of_first) if task in of_second and first_given[task] == second_given[task]
    ]
    if not both:
        raise InputError("no task is in both", where="eval compare", hint="evaluate both on the same tasks")
    families = [of_first[task].family for task in both]
    pairs = [(of_first[task], of_second[task]) for task in both]
    names = [name for name in _COMPARED if (timed or name not in _TIMED) and (one_reward or name != "reward")]
    differences = [
        difference for name in names if (difference := _difference(name, pairs, families)) is not None
    ]
    left_out = len({*of_first, *of_second}) - len(both)
    return Comparison(len(both), len(set(families)), left_out, differences)


def _difference(
    name: str, pairs: Sequence[tuple[Group, Group]], families: Sequence[str]
) -> Difference | None:
    """None if no task has this score for both models."""
    known: list[tuple[float, float, str]] = []
    for (first, second), family in zip(pairs, families, strict=True):
        a, b = _mean(name, first), _mean(name, second)
        if a is not None and b is not None:
            known.append((a, b, family))
    if not known:
        return None
    differences, kept_families = [b - a for a, b, _ in known], [family for *_, family in known]
    bounds = None if name in _UNBOUNDED else (-1.0, 1.0)
    return Difference(
        name,
        fmean(a for a, _, _ in known),
        fmean(b for _, b, _ in known),
        mean(differences, kept_families, bounds),
        detectable(differences, kept_families),
    )


def _mean(name: str, group: Group) -> float | None:
    values = [_COMPARED[name](sample) for sample in group.samples]
    return None if any(value is None for value in values) else fmean(value or 0.0 for value in values)
