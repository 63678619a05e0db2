"""Two models on the same tasks: the differences of their scores, paired by task, with intervals by family;
their plot, an SVG file without scripts or fonts.

Not covered: the scores of one model (`scores`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean

from kcurate.errors import InputError
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.intervals import Estimate, detectable, mean
from kcurate.evaluation.scores import Group, Sample, grouped

# What is compared: the mean of each over a task's samples.
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
# The plot, in pixels.
WIDTH, ROW = 720, 30
_LEFT, _RIGHT, _TOP, _BOTTOM = 120, 175, 62, 40


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
    """The second model minus the first, on the tasks that both have.

    `one_reward` False: they were scored by different reward schemes, so rewards are not compared.

    Raises:
        InputError: there is no such task.
    """
    of_first, of_second = ({group.task: group for group in grouped(rows)} for rows in (first, second))
    first_given, second_given = ({row.task: row.given for row in rows} for rows in (first, second))
    common = [
        task for task in sorted(of_first) if task in of_second and first_given[task] == second_given[task]
    ]
    if not common:
        raise InputError("no task is in both", where="eval compare", hint="evaluate both on the same tasks")
    families = [of_first[task].family for task in common]
    pairs = [(of_first[task], of_second[task]) for task in common]
    names = [name for name in _COMPARED if (timed or name not in _TIMED) and (one_reward or name != "reward")]
    differences = [
        difference for name in names if (difference := _difference(name, pairs, families)) is not None
    ]
    left_out = len({*of_first, *of_second}) - len(common)
    return Comparison(len(common), len(set(families)), left_out, differences)


def _difference(
    name: str, pairs: Sequence[tuple[Group, Group]], families: Sequence[str]
) -> Difference | None:
    """The difference of one score; None if no task has this score for both models."""
    scores: list[tuple[float, float, str]] = []
    for (first, second), family in zip(pairs, families, strict=True):
        a, b = _mean(name, first), _mean(name, second)
        if a is not None and b is not None:
            scores.append((a, b, family))
    if not scores:
        return None
    differences, scored_families = [b - a for a, b, _ in scores], [family for *_, family in scores]
    bounds = None if name in _UNBOUNDED else (-1.0, 1.0)
    return Difference(
        name,
        fmean(a for a, _, _ in scores),
        fmean(b for _, b, _ in scores),
        mean(differences, scored_families, bounds),
        detectable(differences, scored_families),
    )


def _mean(name: str, group: Group) -> float | None:
    values = [_COMPARED[name](sample) for sample in group.samples]
    return None if any(value is None for value in values) else fmean(value or 0.0 for value in values)


def svg(comparison: Comparison, first: str, second: str) -> str:
    """The differences as SVG: one line per score, on a common axis; a grey bar extends to `detectable`."""
    title = f"{second} less {first}: {comparison.tasks} tasks of {comparison.families} families"
    rows = comparison.differences
    ends = [abs(end) for row in rows for end in (row.difference.low, row.difference.high) if end is not None]
    ends += [abs(row.difference.value) for row in rows] + [row.detectable or 0.0 for row in rows]
    most = max(ends, default=0.0) * 1.05 or 1.0
    height = _TOP + ROW * len(rows) + _BOTTOM
    room = (WIDTH - _LEFT - _RIGHT) / 2
    middle = _LEFT + room

    def at(value: float) -> float:
        return middle + room * value / most

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="#24292f"><title>{escape(title)}</title>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="20" font-size="14">{escape(title)}</text>',
        '<text x="12" y="38">grey: less than a comparison of this size finds four times in five</text>',
    ]
    floor = height - _BOTTOM
    for tick in (-most / 1.05, 0.0, most / 1.05):
        x = at(tick)
        parts.append(f'<path d="M{x:.1f} {_TOP - 8}V{floor}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{x:.1f}" y="{floor + 17}" text-anchor="middle">{tick:+.2g}</text>')
    for index, row in enumerate(rows):
        y = _TOP + ROW * index + ROW / 2
        if row.detectable is not None:
            left, wide = at(-row.detectable), at(row.detectable) - at(-row.detectable)
            parts.append(
                f'<rect x="{left:.1f}" y="{y - 9:.1f}" width="{wide:.1f}" height="18" fill="#eaeef2"/>'
            )
        value, low, high = row.difference.value, row.difference.low, row.difference.high
        if low is not None and high is not None:
            line = f"M{at(low):.1f} {y:.1f}H{at(high):.1f}"
            parts.append(f'<path d="{line}" stroke="#0969da" stroke-width="2"/>')
        parts.append(f'<circle cx="{at(value):.1f}" cy="{y:.1f}" r="4" fill="#0969da"/>')
        parts.append(f'<text x="12" y="{y + 4:.1f}">{escape(row.name)}</text>')
        parts.append(f'<text x="{WIDTH - _RIGHT + 12}" y="{y + 4:.1f}">{row.difference.shown("+.3f")}</text>')
    return "\n".join([*parts, "</svg>\n"])
