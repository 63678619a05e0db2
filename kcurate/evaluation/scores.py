"""The scores of a model: the shares of its completions that compile, are correct, and are faster; speedups.

Means are over tasks, intervals over families. A copy is never correct here; the best turn of a sample counts.
Completions that the harness failed to judge count only in totals (outcomes, tokens, costs). Not covered:
intervals (`intervals`), the difference of two models (`comparing`).
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from kcurate.core import codec, store
from kcurate.errors import InputError
from kcurate.evaluation.completions import Completion
from kcurate.evaluation.intervals import Estimate, mean
from kcurate.reward.answers import Refusal
from kcurate.reward.schemes import OURS, STANDINGS

COPIED = Refusal.COPIED.value
SHARE = (0.0, 1.0)
# The thresholds p of fast_p; at 0 every correct completion counts.
THRESHOLDS = (0.0, 0.5, 1.0, 1.05, 1.2, 1.5, 2.0)


@dataclass(frozen=True)
class Sample:
    """The result of one sample of a task: the best of its turns.

    `ratio`: the measured speedup of a correct answer. `gain`: the logarithm of a confirmed speedup, else 0.
    `attained`: `gain` as a share of the known answer's, at most 1; None if no answer is known or nothing was
    timed.
    """

    compiles: bool
    correct: bool
    copied: bool
    ratio: float | None
    gain: float
    attained: float | None
    reward: float

    def faster_than(self, threshold: float) -> bool:
        """Whether it is correct and its speedup above the threshold; from 1 on it must be confirmed."""
        if threshold >= 1:
            return self.correct and self.gain > math.log(threshold)
        return self.correct and (threshold == 0 or (self.ratio or 0.0) > threshold)


@dataclass(frozen=True)
class Group:
    """The samples of one task."""

    task: str
    family: str
    samples: Sequence[Sample]


@dataclass(frozen=True)
class Scores:
    """The scores of one model. Keys of inner maps are the k of pass@k: at least one of k samples succeeds.

    `samples`: the number per task (the smallest, if it differs). `fast`: by threshold, then by k. `best`: the
    speedup of the best of k, at least 1; a geometric mean over tasks. `solved`: tasks with a correct answer.
    `tokens`: means per completion; `usd` and `judge_s`: totals. `gpu_s`: total GPU time of sampling in this
    process and of judging; None if neither used a GPU. `taught`: tasks of families that the adapter was
    trained on.
    """

    name: str
    model: str
    tasks: int
    families: int
    samples: int
    turns: int
    timed: bool
    compiles: Mapping[str, Estimate]
    correct: Mapping[str, Estimate]
    fast: Mapping[str, Mapping[str, Estimate]]
    best: Mapping[str, Estimate]
    copied: Estimate
    attained: Estimate | None
    reward: Estimate
    median_speedup: float | None
    solved: int
    outcomes: Mapping[str, int]
    statuses: Mapping[str, int]
    tokens: Mapping[str, float] = field(default_factory=dict)
    usd: float | None = None
    judge_s: float = 0.0
    gpu_s: float | None = None
    taught: int = 0

    @property
    def faster(self) -> Estimate | None:
        """The share of samples that are faster; None if nothing was timed."""
        return self.fast["1"]["1"] if self.timed else None


def grouped(rows: Sequence[Completion]) -> list[Group]:
    """The judged samples by task, ordered by its id."""
    by_task: dict[tuple[str, str], dict[int, list[Completion]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.outcome != OURS:
            by_task[row.task, row.family][row.sample].append(row)
    return [
        Group(task, family, [best_of(turns) for turns in samples.values()])
        for (task, family), samples in sorted(by_task.items())
    ]


def best_of(turns: Iterable[Completion]) -> Sample:
    """The best turn of a sample."""
    return max(
        map(_sample, turns), key=lambda sample: (sample.correct, sample.gain, sample.compiles, sample.reward)
    )


def _sample(row: Completion) -> Sample:
    standing, copied = STANDINGS[row.outcome or ""], row.outcome == COPIED
    correct = standing.correct and not copied
    gain = math.log(row.speedup) if correct and standing.faster and row.speedup else 0.0
    known = math.log(row.known) if row.known and row.known > 1 else None
    timed = row.speedup is not None or not correct
    return Sample(
        compiles=standing.compiles,
        correct=correct,
        copied=copied,
        ratio=row.speedup if correct else None,
        gain=max(0.0, gain),
        attained=min(1.0, max(0.0, gain) / known) if known and timed else None,
        reward=row.reward or 0.0,
    )


def score(name: str, model: str, rows: Sequence[Completion], *, timed: bool) -> Scores:
    """The scores of judged completions.

    Raises:
        InputError: nothing was judged.
    """
    groups = grouped(rows)
    if not groups:
        raise InputError("no completion was judged", where=name)
    families = [group.family for group in groups]
    fewest = min(len(group.samples) for group in groups)
    ks = sorted({1, fewest, *(2**i for i in range(fewest.bit_length()) if 2**i <= fewest)})

    def share(holds: Callable[[Sample], bool]) -> dict[str, Estimate]:
        shares = {}
        for k in ks:
            values = [any_of(sum(map(holds, group.samples)), len(group.samples), k) for group in groups]
            shares[str(k)] = mean(values, families, SHARE)
        return shares

    return Scores(
        name=name,
        model=model,
        tasks=len(groups),
        families=len(set(families)),
        samples=fewest,
        turns=max(row.turn for row in rows),
        timed=timed,
        compiles=share(lambda sample: sample.compiles),
        correct=share(lambda sample: sample.correct),
        fast={
            f"{p:g}": share(lambda sample, p=p: sample.faster_than(p))  # type: ignore[misc]
            for p in (THRESHOLDS if timed else THRESHOLDS[:1])
        },
        best={str(k): _best(groups, families, k) for k in ks} if timed else {},
        copied=share(lambda sample: sample.copied)["1"],
        attained=_attained(groups) if timed else None,
        reward=mean([fmean(each.reward for each in group.samples) for group in groups], families),
        **_solved(groups),
        **_totals(rows, timed=timed),
    )


def _solved(groups: Sequence[Group]) -> dict[str, Any]:
    """The solved tasks and the median speedup of correct samples, as fields of `Scores`."""
    ratios = [sample.ratio for group in groups for sample in group.samples if sample.correct and sample.ratio]
    return {
        "median_speedup": median(ratios) if ratios else None,
        "solved": sum(any(sample.correct for sample in group.samples) for group in groups),
    }


def _totals(rows: Sequence[Completion], *, timed: bool) -> dict[str, Any]:
    """Counts, costs and times over all completions, as fields of `Scores`."""
    judge_s = sum(row.judge_s or 0.0 for row in rows)
    gpu_s = sum(row.gpu_s or 0.0 for row in rows) + (judge_s if timed else 0.0)
    usd = sum(row.usd or 0.0 for row in rows)
    return {
        "outcomes": dict(sorted(Counter(row.outcome or "" for row in rows).items())),
        "statuses": dict(sorted(Counter(row.status for row in rows).items())),
        "tokens": _tokens(rows),
        "usd": round(usd, 6) if any(row.usd for row in rows) else None,
        "judge_s": round(judge_s, 2),
        "gpu_s": round(gpu_s, 2) or None,
        "taught": len({row.task for row in rows if row.taught}),
    }


def any_of(hits: int, count: int, k: int) -> float:
    """The probability that one of `k` samples is a hit: the unbiased estimate of pass@k."""
    return 1.0 - math.comb(count - hits, k) / math.comb(count, k)


def most_of(values: Sequence[float], k: int) -> float:
    """The expected maximum of `k` of the values, drawn without replacement."""
    count = len(values)
    return sum(
        value * math.comb(i, k - 1) / math.comb(count, k)
        for i, value in enumerate(sorted(values))
        if i >= k - 1
    )


def _best(groups: Sequence[Group], families: Sequence[str], k: int) -> Estimate:
    """The speedup of the best of `k` samples, as a geometric mean over tasks."""
    estimate = mean([most_of([each.gain for each in group.samples], k) for group in groups], families)
    low, high = (None if end is None else math.exp(end) for end in (estimate.low, estimate.high))
    return Estimate(math.exp(estimate.value), None if low is None else max(1.0, low), high)


def _attained(groups: Sequence[Group]) -> Estimate | None:
    """The mean of `attained` over the tasks with a known answer; None if there are none."""
    known = [group for group in groups if all(sample.attained is not None for sample in group.samples)]
    values = [fmean(sample.attained or 0.0 for sample in group.samples) for group in known]
    return mean(values, [group.family for group in known], SHARE) if known else None


def _tokens(rows: Sequence[Completion]) -> dict[str, float]:
    means = {}
    for name in ("input_tokens", "output_tokens"):
        counted = [value for row in rows if (value := getattr(row, name)) is not None]
        if counted:
            means[name.removesuffix("_tokens")] = round(fmean(counted), 1)
    return means


def read_rows(path: Path) -> tuple[Scores, ...]:
    """The rows of a file of scores; none if it is missing.

    Raises:
        InputError: it is not a scores file.
    """
    if not path.is_file():
        return ()
    try:
        rows = json.loads(path.read_bytes())["rows"]
        return tuple(codec.from_data(Scores, row, where=str(path)) for row in rows)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("not a scores file", where=str(path), hint="delete it to score again") from error


def add_row(path: Path, new: Scores) -> tuple[Scores, ...]:
    """Add a row to a file of scores, replacing one of the same name; returns all rows."""
    rows = [row for row in read_rows(path) if row.name != new.name] + [new]
    store.write_bytes(path, store.pretty_json({"rows": [codec.to_data(row) for row in rows]}))
    return tuple(rows)


def line(scores: Scores) -> str:
    """The scores in one line."""
    faster = "not timed" if scores.faster is None else scores.faster.shown()
    return (
        f"{scores.name}: compiles {scores.compiles['1'].shown()}, correct {scores.correct['1'].shown()}, "
        f"copied {scores.copied.shown()}, faster {faster}, reward {scores.reward.shown()}"
    )


def markdown(rows: Sequence[Scores]) -> str:
    """The rows as a Markdown table; empty when there are none."""
    if not rows:
        return ""
    lines = [
        "| model | tasks (families) | samples | compiles | correct | copied | faster | attained | reward |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        faster = "not timed" if row.faster is None else row.faster.shown(".1%")
        attained = "" if row.attained is None else row.attained.shown(".1%")
        shares = (row.compiles["1"], row.correct["1"], row.copied)
        cells = (*(share.shown(".1%") for share in shares), faster, attained, row.reward.shown())
        lines.append(
            f"| {row.name} | {row.tasks} ({row.families}) | {row.samples} each | {' | '.join(cells)} |"
        )
    return "\n".join(lines) + "\n"
