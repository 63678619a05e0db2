"""The stage: workspace and built-in pairs with their verdicts in, a local dataset folder out.

Every pair ends with one outcome: a row, or why it is not one. Equal input gives equal bytes. Not covered:
anything that leaves this machine (`kcurate.dataset.push`).
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from kcurate import resources, store
from kcurate.dataset import card, changes, licences, parquet, plot, splits
from kcurate.dataset.gates import BAD_ROW, Gates, Refusal, Rules
from kcurate.dataset.rows import row
from kcurate.dataset.tuning import grpo_row, sft_row, teaches
from kcurate.notes import Note, silent
from kcurate.records import Candidate, Summary, Verdict
from kcurate.runs import ordered, recorded
from kcurate.verdicts import readable, standing
from kcurate.workspace import Workspace


class RowOutcome(StrEnum):
    """What became of a pair: a row (the first two), or why it is none. `stale`: judged as something else."""

    CONFIRMED = "confirmed"
    CORRECT = "correct"
    REFUSED = "refused"
    NOT_JUDGED = "not_judged"
    STALE = "stale"
    SAME_ID = "same_id"
    BAD_ROW = "bad_row"
    LICENCE = "licence"
    SECRET = "secret"
    DUPLICATE = "duplicate"
    CONTAMINATED = "contaminated"


_ROWS = (RowOutcome.CONFIRMED, RowOutcome.CORRECT)


@dataclass(frozen=True)
class BuildConfig:
    """What to build from: the workspace's pairs and, with `built_in`, those that ship with the package.

    `version` None: the next one after that of the dataset that is there. `test_share`: of families, 0 to 1.
    """

    workspace: Path
    built_in: bool = False
    rules: Rules = field(default_factory=Rules)
    version: str | None = None
    test_share: float = splits.TEST_SHARE


_Judged = tuple[Candidate, tuple[Verdict, ...]]


@dataclass(frozen=True)
class _Entry:
    candidate: Candidate
    outcome: RowOutcome
    row: dict[str, Any] | None = None


@store.without_collector()
def run(config: BuildConfig, *, note: Note = silent) -> Summary:
    """Write `dataset/` of the workspace, whole or not at all; a pair that cannot be read is named in a note.

    Raises:
        InputError: there is no pair at all, or an option that cannot be used.
    """
    workspace = Workspace(config.workspace)
    folders = readable.pair_folders(workspace, built_in=config.built_in)
    with recorded("build", config.workspace, note=note) as record:
        gates = Gates(config.rules)
        _restore(workspace.dataset)
        record.begin(config)
        pairs, broken = _read(folders, workspace)
        for found in broken:
            gates.refusals.append(_refusal(found, workspace))
            record.note(f"left out: {found}")
        entries = [_gated(entry, gates) for entry in _entries(pairs)]
        counts = Counter[str]([*(entry.outcome for entry in entries), *(RowOutcome.BAD_ROW for _ in broken)])
        kept = [entry for entry in entries if entry.row is not None]
        if kept:
            _write(workspace.dataset, _files(kept, gates, config, changes.read(workspace.dataset)))
        return record.finish({"pairs": ordered(counts, RowOutcome)})


def _read(folders: Iterable[Path], workspace: Workspace) -> tuple[list[_Judged], list[readable.Unreadable]]:
    """The pairs with all their verdicts, and the folders that cannot be read."""
    pairs: list[_Judged] = []
    broken: list[readable.Unreadable] = []
    for found in readable.judged(folders, workspace):
        if isinstance(found, readable.Unreadable):
            broken.append(found)
        else:
            pairs.append(found)
    return pairs, broken


def _refusal(found: readable.Unreadable, workspace: Workspace) -> Refusal:
    """It names the folder and file as they lie below the pairs: the dataset knows no path of this machine."""
    inside = found.folder.is_relative_to(workspace.pairs)
    name = found.folder.relative_to(workspace.pairs if inside else resources.pairs_dir()).as_posix()
    return Refusal(name, BAD_ROW, f"{found.file}: {found.why}")


def _entries(pairs: Iterable[_Judged]) -> list[_Entry]:
    """Every pair with its row: confirmed ones first, so that of two alike the better proved one stays."""
    taken: set[str] = set()
    entries = []
    for candidate, verdicts in pairs:
        entry = _decide(candidate, verdicts, taken)
        if entry.row is not None:
            taken.add(candidate.id)
        entries.append(entry)
    return sorted(entries, key=lambda entry: (entry.outcome is not RowOutcome.CONFIRMED, entry.candidate.id))


def _decide(candidate: Candidate, verdicts: Sequence[Verdict], taken: set[str]) -> _Entry:
    """The outcome, and the row with the verdict that stands for the pair."""
    current = standing.current(candidate, verdicts)
    best = standing.best(current)
    if best is None:
        return _Entry(candidate, RowOutcome.STALE if verdicts else RowOutcome.NOT_JUDGED)
    if candidate.id in taken:
        return _Entry(candidate, RowOutcome.SAME_ID)
    if best.outcome.value not in _ROWS:
        return _Entry(candidate, RowOutcome.REFUSED)
    return _Entry(candidate, RowOutcome(best.outcome.value), row(candidate, best, _others(current, best)))


def _others(verdicts: Sequence[Verdict], chosen: Verdict) -> list[Verdict]:
    """The last verdict of every other device."""
    last = {verdict.environment.device: verdict for verdict in verdicts}
    return [last[name] for name in sorted(last) if name != chosen.environment.device]


def _gated(entry: _Entry, gates: Gates) -> _Entry:
    refused = gates.offer(entry.row) if entry.row is not None else None
    return _Entry(entry.candidate, RowOutcome(refused.reason)) if refused else entry


def _files(
    kept: Sequence[_Entry], gates: Gates, config: BuildConfig, before: changes.History | None
) -> dict[str, bytes]:
    """Path in the dataset folder to content."""
    rows = sorted((entry.row for entry in kept if entry.row is not None), key=lambda one: str(one["id"]))
    families = {one["id"]: one["family"] for one in rows}
    places = splits.assign(families, gates.related, config.test_share)
    parted = {split: [one for one in rows if places[one["id"]] == split] for split in parquet.SPLITS}
    parted = {split: inside for split, inside in parted.items() if inside}
    history = changes.follow(before, parted, config.version)
    taught = {
        split: [(one, sft_row(one)) for one in inside if teaches(one)] for split, inside in parted.items()
    }
    made = {
        "pairs": parted,
        "sft": {split: [sft for _, sft in inside] for split, inside in taught.items()},
        "grpo": {
            split: [grpo_row(one, sft["prompt"]) for one, sft in inside] for split, inside in taught.items()
        },
    }
    made = {name: {split: x for split, x in found.items() if x} for name, found in made.items()}
    counts = {name: {split: len(x) for split, x in found.items()} for name, found in made.items() if found}
    files = {
        parquet.data_file(name, split): parquet.to_bytes(name, inside)
        for name, found in made.items()
        for split, inside in found.items()
    }
    content = card.Content(parted, counts, gates, history.version)
    speedups = [one["speedup"] for one in rows if teaches(one) and one["speedup"]]
    if speedups:
        title = f"Speedups of {len(speedups)} confirmed pairs"
        files[card.PLOT] = plot.speedups_svg(speedups, title).encode()
    return files | {
        "README.md": card.render(content).encode(),
        "ATTRIBUTION.md": licences.attribution(entry.candidate for entry in kept).encode(),
        "CHANGES.md": changes.to_markdown(history).encode(),
        changes.FILE: changes.to_json(history),
        "gates.json": store.pretty_json(_report(gates)),
    }


def _report(gates: Gates) -> dict[str, Any]:
    overlaps = sorted(gates.overlaps, key=lambda one: (-one.share, one.row, one.set))
    return {
        "refused": [asdict(refusal) for refusal in gates.refusals],
        "evaluation_sets": {one.name: len(one.items) for one in gates.sets},
        "overlaps": [asdict(one) for one in overlaps],
    }


def _set_aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _restore(folder: Path) -> None:
    """Put the old folder back after a run that was killed between the two renames of `_write`."""
    if not folder.exists() and _set_aside(folder).exists():
        _set_aside(folder).rename(folder)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Put the files in place of the folder, which is the old one or the new one at every moment but one."""
    new, old = folder.with_name(f".{folder.name}.new"), _set_aside(folder)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    for name, content in files.items():
        store.write_bytes(new / name, content)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
