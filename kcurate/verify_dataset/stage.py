"""`kcurate verify-dataset`: every published row judged again, and what came out otherwise.

A row's published code is judged, not the original. Drift is told by row and device: another outcome, or a
speedup whose interval does not meet the published one. New verdicts are kept in the workspace beside those of
other GPU models and replace none. Not covered: how a verdict is made
(`kcurate.judge`).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from kcurate import judge, store
from kcurate.backends.choice import choose
from kcurate.judge import JudgeConfig
from kcurate.notes import Note, silent
from kcurate.published_rows import candidate_of, opened, read_rows
from kcurate.records import Outcome, Summary, Verdict
from kcurate.runs import ordered, recorded
from kcurate.verdicts import ledger
from kcurate.workspace import Workspace

# A speedup may move by this share of itself beyond its interval: clocks and drivers differ between machines.
SPEEDUP_SLACK = 0.05


class Drift(StrEnum):
    """How a row's new verdict stands to the published one, in the order in which it is asked.

    `same`: correct, and the speedup where it was; `untimed`: correct, on a device that takes no times;
    `other_device`: confirmed on another GPU model, where a speedup may be another.
    """

    BROKEN = "broken"
    NOT_FASTER = "not_faster"
    UNCLEAR = "unclear"
    UNTIMED = "untimed"
    OTHER_DEVICE = "other_device"
    SPEEDUP_MOVED = "speedup_moved"
    SAME = "same"


_BAD = (Drift.BROKEN, Drift.NOT_FASTER, Drift.SPEEDUP_MOVED, Drift.UNCLEAR)


@dataclass(frozen=True)
class VerifyConfig:
    """What to judge again (a folder, or USER/NAME on the Hub), on what. `rows` 0: all."""

    dataset: str
    workspace: Path
    backend: str = "auto"
    gpu: str = "0"
    jobs: int = 0
    rows: int = 0
    revision: str | None = None


@dataclass(frozen=True)
class Compared:
    """A row and what became of it on `device`; speedups None where no time was taken."""

    id: str
    drift: Drift
    device: str
    outcome: str
    detail: str
    published_device: str
    published_speedup: float | None
    speedup: float | None


@dataclass(frozen=True)
class Report:
    """The counts, and every row that drifted."""

    summary: Summary
    drifted: tuple[Compared, ...]


def run(config: VerifyConfig, *, note: Note = silent) -> Report:
    """Judge rows again; the counts are over the rows judged.

    Raises:
        InputError: no such dataset. MissingDependencyError: the backend asked for is not here.
        RemoteError: the Hub cannot be reached.
    """
    from tqdm import tqdm

    with recorded("verify-dataset", config.workspace, note=note) as record:
        with opened(config.dataset, revision=config.revision, note=record.note) as folder:
            rows = _rows(folder, config.rows)
        place = choose(config.backend, config.gpu, note=record.note)
        workspace = Workspace(config.workspace)
        record.begin(config)
        candidates = [candidate_of(row) for row in rows]
        compared: dict[int, Compared] = {}
        with tqdm(total=len(rows), unit="row", desc="verify-dataset") as bar:
            judging = JudgeConfig(place.backend, place.gpus[0])
            judged = judge.judge_many(enumerate(candidates), judging, gpus=place.gpus, jobs=config.jobs)
            with contextlib.closing(judged):
                for index, verdict in judged:
                    compared[index] = compare(rows[index], verdict)
                    ledger.record(workspace, verdict)
                    bar.update()
        every = [compared[index] for index in sorted(compared)]
        counts = Counter[str](one.drift for one in every)
        lines = [{key: value for key, value in asdict(one).items() if value is not None} for one in every]
        store.write_bytes(record.folder / "drift.json", store.pretty_json(lines))
        summary = record.finish({"rows": ordered(counts, Drift)})
        return Report(summary, tuple(one for one in every if one.drift in _BAD))


def compare(row: Mapping[str, Any], verdict: Verdict) -> Compared:
    """What the new verdict says of a published row."""
    speedup = verdict.speedup
    return Compared(
        id=row["id"],
        drift=_drift(row, verdict),
        device=verdict.environment.device,
        outcome=verdict.outcome.value,
        detail=verdict.detail,
        published_device=row["device"],
        published_speedup=row["speedup"],
        speedup=speedup.ratio if speedup else None,
    )


def _drift(row: Mapping[str, Any], verdict: Verdict) -> Drift:
    if verdict.outcome is Outcome.HARNESS_ERROR:
        return Drift.UNCLEAR
    if not verdict.outcome.correct:
        return Drift.BROKEN
    if verdict.outcome is Outcome.AMBIGUOUS_TIMING:
        return Drift.UNCLEAR
    if verdict.outcome is Outcome.NOT_FASTER:
        return Drift.NOT_FASTER
    if verdict.speedup is None or row["speedup"] is None:
        return Drift.UNTIMED
    if verdict.environment.device != row["device"]:
        return Drift.OTHER_DEVICE
    slack = SPEEDUP_SLACK * row["speedup"]
    apart = max(verdict.speedup.low - row["speedup_high"], row["speedup_low"] - verdict.speedup.high)
    return Drift.SPEEDUP_MOVED if apart > slack else Drift.SAME


def _rows(folder: Path, limit: int) -> list[dict[str, Any]]:
    """The rows, or `limit` of them spread over the whole set."""
    rows = sorted(
        (row for inside in read_rows(folder).values() for row in inside), key=lambda row: str(row["id"])
    )
    return rows if not 0 < limit < len(rows) else [rows[i * len(rows) // limit] for i in range(limit)]


def shown(drifted: Sequence[Compared]) -> list[tuple[str, str, str, str, str]]:
    """Rows of a table of drift: id, drift, device, published and new speedup or what was found."""
    return [
        (
            one.id,
            one.drift.value,
            one.device,
            f"{one.published_speedup:.2f}" if one.published_speedup else "",
            f"{one.speedup:.2f}" if one.speedup else one.detail[:80],
        )
        for one in drifted
    ]
