"""`kcurate verify-dataset`: judges published rows again and reports drift.

A row's published code is judged, not the original. Drift is another outcome, or a speedup whose interval does
not overlap the published one. New verdicts are added to the workspace. Not covered: how a verdict is made
(`kcurate.judge`).
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import kcurate.judge as judge
from kcurate.backends.choice import Place, choose
from kcurate.core import codec, progress, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import Run, ordered, recorded
from kcurate.core.workspace import Workspace
from kcurate.errors import InputError, OptionError
from kcurate.hub.published_rows import candidate_of, opened, read_rows
from kcurate.judge import JudgeConfig
from kcurate.records import Item, Outcome, Summary, Verdict
from kcurate.verdicts import ledger
from kcurate.verdicts.keys import PROTOCOL
from kcurate.verify_dataset.settings import VerifyConfig

# Allowed gap between the two intervals, relative to the speedup: clocks and drivers differ between machines.
SPEEDUP_SLACK = 0.05


class Drift(StrEnum):
    """How a row's new verdict compares with the published one.

    `broken`: no longer correct. `not_faster`: no longer faster on the published device. `unclear`: not
    judged, or its timing is ambiguous. `untimed`: correct on a device without timing. `not_faster_there`,
    `holds_there`: correct on a GPU model that the row has no times for; only the second is also faster there.
    `older_protocol`: correct, but published under an older protocol of the judge, whose times are not
    comparable. `speedup_moved`: the intervals are further apart than `SPEEDUP_SLACK`. `same`: correct, with
    the speedup published for this device.
    """

    BROKEN = "broken"
    NOT_FASTER = "not_faster"
    UNCLEAR = "unclear"
    UNTIMED = "untimed"
    NOT_FASTER_THERE = "not_faster_there"
    HOLDS_THERE = "holds_there"
    OLDER_PROTOCOL = "older_protocol"
    SPEEDUP_MOVED = "speedup_moved"
    SAME = "same"


_DRIFTED = (Drift.BROKEN, Drift.NOT_FASTER, Drift.NOT_FASTER_THERE, Drift.SPEEDUP_MOVED, Drift.UNCLEAR)


@dataclass(frozen=True)
class Compared:
    """A row and its new verdict on `device`; speedups are None if not timed."""

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
        InputError: no such dataset, or nothing to contribute. RemoteError: the Hub is unreachable.
        MissingDependencyError: the backend is not available.
    """
    with recorded("verify-dataset", config.workspace, note=note) as record:
        with opened(config.dataset, revision=config.revision, note=record.note) as folder:
            rows = _rows(folder, config.rows)
        older = sum(_protocol(row) != PROTOCOL for row in rows)
        if older:
            record.note(
                f"{older} of {len(rows)} rows were judged under an older protocol than {PROTOCOL}: "
                "their times are not compared"
            )
        place = choose(config.backend, config.gpu, note=record.note)
        workspace = Workspace(config.workspace)
        if config.contribute is not None and place.backend != "cuda":
            hint = "run it where kcurate doctor finds a GPU, or without --contribute"
            raise OptionError("only verdicts of a GPU can be sent", where="--contribute", hint=hint)
        record.begin(config)
        verdicts = _judged(rows, config, place)
        in_order = [compare(row, verdict) for row, verdict in zip(rows, verdicts, strict=True)]
        counts = Counter[str](comparison.drift for comparison in in_order)
        for line in other_device_notes(in_order):
            record.note(line)
        if config.contribute is not None:
            sendable = (contribution(row, verdict) for row, verdict in zip(rows, verdicts, strict=True))
            _write(config.contribute, [verdict for verdict in sendable if verdict], record.note)
        lines = [
            {key: value for key, value in asdict(comparison).items() if value is not None}
            for comparison in in_order
        ]
        store.write_bytes(record.folder / "drift.json", store.pretty_json(lines))
        for comparison in in_order:
            record.add(_item(comparison, workspace, record))
        summary = record.finish({"rows": ordered(counts, Drift)})
        return Report(summary, tuple(comparison for comparison in in_order if comparison.drift in _DRIFTED))


def _judged(rows: Sequence[Mapping[str, Any]], config: VerifyConfig, place: Place) -> list[Verdict]:
    """The new verdict on each row; those so far are in the ledger, should one fail."""
    workspace = Workspace(config.workspace)
    judging = JudgeConfig(place.backend, place.gpus[0], workspace=config.workspace.resolve())
    candidates = [candidate_of(row) for row in rows]
    verdicts: dict[int, Verdict] = {}
    with progress.bar("verify-dataset", len(rows), "row") as bar:
        judged = judge.judge_many(enumerate(candidates), judging, gpus=place.gpus, jobs=config.jobs)
        with contextlib.closing(judged):
            for index, verdict in judged:
                verdicts[index] = verdict
                ledger.record(workspace, verdict)
                bar.set_description(f"verify-dataset on {verdict.environment.device}", refresh=False)
                bar.update()
    return [verdicts[index] for index in range(len(rows))]


def contribution(row: Mapping[str, Any], verdict: Verdict) -> Verdict | None:
    """The verdict under the key of the row's pair; None if it says nothing about that pair.

    The row's code is the pair's code without comments, so the verdict gets the key of the published one.
    """
    if not row.get("key") or _protocol(row) != PROTOCOL or not verdict.outcome.judged:
        return None
    return replace(verdict, key=row["key"])


def other_device_notes(compared: Iterable[Compared]) -> Iterator[str]:
    """For each GPU model other than the rows' own, how many rows hold there and how many do not."""
    places: dict[tuple[str, str], Counter[Drift]] = {}
    for comparison in compared:
        if comparison.device != comparison.published_device and comparison.drift is not Drift.UNTIMED:
            places.setdefault((comparison.device, comparison.published_device), Counter())[
                comparison.drift
            ] += 1
    for (device, published), drifts in sorted(places.items()):
        not_faster, broken = drifts[Drift.NOT_FASTER_THERE], drifts[Drift.BROKEN]
        unclear = f", {drifts[Drift.UNCLEAR]} are unclear" if drifts[Drift.UNCLEAR] else ""
        yield (
            f"of {drifts.total()} rows published on {published}, {drifts[Drift.HOLDS_THERE]} hold "
            f"on {device} and {not_faster + broken} do not ({not_faster} not faster, {broken} not correct)"
            f"{unclear}"
        )


def _write(path: Path, verdicts: Sequence[Verdict], note: Note) -> None:
    if not verdicts:
        hint = "verify a dataset of this version of kcurate"
        raise InputError("no verdict that can be sent", where="--contribute", hint=hint)
    lines = [codec.canonical_json(codec.to_data(verdict)) + b"\n" for verdict in verdicts]
    store.write_bytes(path, b"".join(lines))
    note(f"{path}: {len(verdicts)} verdicts; the dataset's owner puts them into verdicts/ and builds again")


def compare(row: Mapping[str, Any], verdict: Verdict) -> Compared:
    """A published row compared with its new verdict; uses the row's times for that device, if it has any."""
    speedup = verdict.speedup
    row = _published(row, verdict.environment.device)
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


def _published(row: Mapping[str, Any], device: str) -> Mapping[str, Any]:
    """The row with its times for `device` if it has any; these are of the row's protocol."""
    timed = [timing for timing in row.get("devices") or () if timing["speedup"] is not None]
    return {**row, **next((timing for timing in timed if timing["device"] == device), {})}


def _drift(row: Mapping[str, Any], verdict: Verdict) -> Drift:
    if not verdict.outcome.judged:
        return Drift.UNCLEAR
    if not verdict.outcome.correct:
        return Drift.BROKEN
    if verdict.outcome is Outcome.AMBIGUOUS_TIMING:
        return Drift.UNCLEAR
    other_device = verdict.environment.device != row["device"]
    if verdict.outcome is Outcome.NOT_FASTER and row["outcome"] != Outcome.NOT_FASTER:
        return Drift.NOT_FASTER_THERE if other_device else Drift.NOT_FASTER
    if verdict.speedup is None or row["speedup"] is None:
        return Drift.UNTIMED
    if other_device:
        return Drift.HOLDS_THERE
    if _protocol(row) != PROTOCOL:
        return Drift.OLDER_PROTOCOL
    slack = SPEEDUP_SLACK * row["speedup"]
    gap = max(verdict.speedup.low - row["speedup_high"], row["speedup_low"] - verdict.speedup.high)
    return Drift.SPEEDUP_MOVED if gap > slack else Drift.SAME


def _protocol(row: Mapping[str, Any]) -> str:
    """The protocol that a row was judged under; rows without the column are older than it."""
    return str(row.get("protocol") or "2")


def _rows(folder: Path, limit: int) -> list[dict[str, Any]]:
    """All rows, or `limit` of them spread evenly over the dataset."""
    rows = sorted(
        (row for rows in read_rows(folder).values() for row in rows), key=lambda row: str(row["id"])
    )
    return rows if not 0 < limit < len(rows) else [rows[i * len(rows) // limit] for i in range(limit)]


def _item(comparison: Compared, workspace: Workspace, record: Run) -> Item:
    """A row with both speedups, or with the judge's detail on what is wrong with it now."""
    now = (
        f"{comparison.speedup:.2f} times as fast"
        if comparison.speedup
        else f"{comparison.outcome} {comparison.detail}".rstrip()
    )
    before = (
        f"{comparison.published_speedup:.2f} on {comparison.published_device}"
        if comparison.published_speedup
        else "untimed"
    )
    passed = comparison.drift not in _DRIFTED
    following = None if passed else record.command("list", "verdicts", comparison.id)
    file = str(workspace.ledger(comparison.device))
    return Item(
        "rows",
        comparison.id,
        comparison.drift,
        passed,
        f"now {now} on {comparison.device}; published: {before}",
        file,
        following,
    )
