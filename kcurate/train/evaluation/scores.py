"""The numbers of a model: what share of its completions compile, are correct, are faster, and by how much.

The task is the unit of every mean, the family that of every interval. A copy is never correct here; of the
turns of one sample the best counts. Completions that the harness failed to judge are counted, and in nothing
else. Not covered: intervals (`intervals`), the difference of two models (`comparing`).
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from kcurate.core import codec, store
from kcurate.errors import InputError
from kcurate.train.evaluation.completions import Completion
from kcurate.train.evaluation.intervals import Estimate, mean
from kcurate.train.reward.answers import Refusal
from kcurate.train.reward.schemes import OURS, STANDINGS

COPIED = Refusal.COPIED.value
SHARE = (0.0, 1.0)
# The p of fast_p; 0 is any correct one.
THRESHOLDS = (0.0, 0.5, 1.0, 1.05, 1.2, 1.5, 2.0)


@dataclass(frozen=True)
class Sample:
    """What came of one sample of a task, by the best of its turns.

    `ratio`: the measured one of a correct answer. `gain`: the logarithm of a confirmed speedup, else 0.
    `attained`: that as a share of the known answer's, at most 1; None if none is known or nothing was timed.
    """

    compiles: bool
    correct: bool
    copied: bool
    ratio: float | None
    gain: float
    attained: float | None
    reward: float

    def faster_than(self, threshold: float) -> bool:
        """Whether it is correct and faster than this ratio; from 1 on only if that was confirmed."""
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
    """The numbers of one model. Keys of inner maps are k, the number of samples of which one is enough.

    `samples`: per task, the fewest. `fast`: by threshold, then by k. `best`: the speedup of the best of k,
    where one that is not faster counts as 1; a geometric mean over tasks. `solved`: tasks with a correct
    answer. `tokens`: means per completion; `usd` and `judge_s` in all. `gpu_s`: seconds of GPUs in all, of
    sampling in this process and of judging; None if neither used one. `taught`: tasks of families that the
    adapter was taught.
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
    turns: dict[tuple[str, str], dict[int, list[Completion]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.outcome != OURS:
            turns[row.task, row.family][row.sample].append(row)
    return [Group(*key, [best_of(one) for one in samples.values()]) for key, samples in sorted(turns.items())]


def best_of(turns: Iterable[Completion]) -> Sample:
    """The best turn of a sample."""
    return max(map(_sample, turns), key=lambda one: (one.correct, one.gain, one.compiles, one.reward))


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
    """The numbers of judged completions.

    Raises:
        InputError: nothing was judged.
    """
    groups = grouped(rows)
    if not groups:
        raise InputError("no completion was judged", where=name)
    families = [one.family for one in groups]
    fewest = min(len(one.samples) for one in groups)
    ks = sorted({1, fewest, *(2**i for i in range(fewest.bit_length()) if 2**i <= fewest)})

    def share(holds: Callable[[Sample], bool]) -> dict[str, Estimate]:
        found = {}
        for k in ks:
            values = [any_of(sum(map(holds, one.samples)), len(one.samples), k) for one in groups]
            found[str(k)] = mean(values, families, SHARE)
        return found

    known = [one for one in groups if all(each.attained is not None for each in one.samples)]
    right = [sample for one in groups for sample in one.samples if sample.correct]
    ratios = [one.ratio for one in right if one.ratio]
    judge_s = sum(row.judge_s or 0.0 for row in rows)
    gpu_s = sum(row.gpu_s or 0.0 for row in rows) + (judge_s if timed else 0.0)
    return Scores(
        name=name,
        model=model,
        tasks=len(groups),
        families=len(set(families)),
        samples=fewest,
        turns=max(row.turn for row in rows),
        timed=timed,
        compiles=share(lambda one: one.compiles),
        correct=share(lambda one: one.correct),
        fast={
            f"{p:g}": share(lambda one, p=p: one.faster_than(p))  # type: ignore[misc]
            for p in (THRESHOLDS if timed else THRESHOLDS[:1])
        },
        best={str(k): _best(groups, families, k) for k in ks} if timed else {},
        copied=share(lambda one: one.copied)["1"],
        attained=_attained(known) if timed and known else None,
        reward=mean([fmean(s.reward for s in one.samples) for one in groups], families),
        median_speedup=median(ratios) if ratios else None,
        solved=sum(any(each.correct for each in one.samples) for one in groups),
        outcomes=dict(sorted(Counter(row.outcome or "" for row in rows).items())),
        statuses=dict(sorted(Counter(row.status for row in rows).items())),
        tokens=_tokens(rows),
        usd=round(sum(row.usd or 0.0 for row in rows), 6) if any(row.usd for row in rows) else None,
        judge_s=round(judge_s, 2),
        gpu_s=round(gpu_s, 2) or None,
        taught=len({row.task for row in rows if row.taught}),
    )


def any_of(hits: int, count: int, k: int) -> float:
    """The chance that one of `k` of the samples is a hit: the unbiased pass@k."""
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
    found = mean([most_of([s.gain for s in one.samples], k) for one in groups], families)
    low, high = (None if end is None else math.exp(end) for end in (found.low, found.high))
    return Estimate(math.exp(found.value), None if low is None else max(1.0, low), high)


def _attained(known: Sequence[Group]) -> Estimate:
    values = [fmean(each.attained or 0.0 for each in one.samples) for one in known]
    return mean(values, [one.family for one in known], SHARE)


def _tokens(rows: Sequence[Completion]) -> dict[str, float]:
    found = {}
    for name in ("input_tokens", "output_tokens"):
        counted = [value for row in rows if (value := getattr(row, name)) is not None]
        if counted:
            found[name.removesuffix("_tokens")] = round(fmean(counted), 1)
    return found


def read_rows(path: Path) -> tuple[Scores, ...]:
    """The rows of a file of scores; none if it is missing.

    Raises:
        InputError: not such a file.
    """
    if not path.is_file():
        return ()
    try:
        rows = json.loads(path.read_bytes())["rows"]
        return tuple(codec.from_data(Scores, one, where=str(path)) for one in rows)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("not a scores file", where=str(path), hint="delete it to score again") from error


def add_row(path: Path, made: Scores) -> tuple[Scores, ...]:
    """Add a row to a file of scores, replacing one of the same name; returns all rows."""
    rows = [one for one in read_rows(path) if one.name != made.name] + [made]
    store.write_bytes(path, store.pretty_json({"rows": [codec.to_data(one) for one in rows]}))
    return tuple(rows)


def line(one: Scores) -> str:
    """The numbers in one line."""
    faster = "not timed" if one.faster is None else one.faster.shown()
    return (
        f"{one.name}: compiles {one.compiles['1'].shown()}, correct {one.correct['1'].shown()}, "
        f"copied {one.copied.shown()}, faster {faster}, reward {one.reward.shown()}"
    )


def markdown(rows: Sequence[Scores]) -> str:
    """The rows as a Markdown table; empty when there are none."""
    if not rows:
        return ""
    lines = [
        "| model | tasks (families) | samples | compiles | correct | copied | faster | attained | reward |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in rows:
        faster = "not timed" if one.faster is None else one.faster.shown(".1%")
        attained = "" if one.attained is None else one.attained.shown(".1%")
        shares = (one.compiles["1"], one.correct["1"], one.copied)
        cells = (*(each.shown(".1%") for each in shares), faster, attained, one.reward.shown())
        lines.append(
            f"| {one.name} | {one.tasks} ({one.families}) | {one.samples} each | {' | '.join(cells)} |"
        )
    return "\n".join(lines) + "\n"
