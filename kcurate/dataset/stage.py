"""The stage: workspace and built-in pairs with their verdicts in, a local dataset folder out.

Every pair ends with one outcome: a row, or why it is not one. Equal input gives equal bytes. Not covered:
publishing (`kcurate.dataset.push`).
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from kcurate.core import progress, resources, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import command, ordered, recorded
from kcurate.core.workspace import Workspace
from kcurate.dataset import card, changes, licences, parquet, plot, profile_rows, repairs
from kcurate.dataset.gates import BAD_ROW, Gates, Refusal, unsanitized
from kcurate.dataset.rows import row
from kcurate.dataset.settings import BuildConfig
from kcurate.dataset.tuning import tables, trainable
from kcurate.errors import InputError
from kcurate.problem.lessons import Untaught
from kcurate.profiling import on_file
from kcurate.records import SIDES, Candidate, Item, Kernel, Profile, Summary, Verdict, WrongAttempt
from kcurate.reward import splits
from kcurate.verdicts import items, readable, standing


class RowOutcome(StrEnum):
    """A pair's outcome: a row (the first two), or why not. `stale`: its verdicts are on other content, or of
    an older protocol of the judge."""

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
    SINGLE_SIZE = "single_size"
    UNSANITIZED = "unsanitized"


_ROWS = (RowOutcome.CONFIRMED, RowOutcome.CORRECT)
_GATES = "gates.json"
# The commonest reasons that an error without rows names.
_REASONS = 3


@dataclass(frozen=True)
class _Entry:
    pair: readable.Judged
    outcome: RowOutcome
    best: Verdict | None = None
    row: dict[str, Any] | None = None
    refused: Refusal | None = None

    @property
    def candidate(self) -> Candidate:
        return self.pair.candidate


@store.without_collector()
def run(config: BuildConfig, *, note: Note = silent) -> Summary:
    """Write `dataset/` of the workspace, completely or not at all; unreadable pairs are named in notes.

    Without a row an existing dataset stays, and `gates.json` is in the run's folder; else it is alone in
    `dataset/`.

    Raises:
        InputError: no pairs, or an unusable option.
    """
    workspace = Workspace(config.workspace)
    folders = readable.pair_folders(workspace, built_in=config.built_in)
    with recorded("build", config.workspace, note=note) as record:
        gates = Gates(config.rules)
        changes.checked(config.version, None)
        _restore(workspace.dataset)
        record.begin(config)
        pairs, broken = _read(folders, workspace)
        for unreadable in broken:
            gates.refusals.append(_refusal(unreadable, workspace))
            record.note(f"left out: {unreadable}")
            record.add(items.unreadable("pairs", RowOutcome.BAD_ROW, unreadable, workspace))
        with progress.bar("make rows"):
            entries = _entries(pairs, workspace)
        entries = [_gated(entry, gates) for entry in progress.each(entries, "check", unit="row")]
        counts = Counter[str]([*(entry.outcome for entry in entries), *(RowOutcome.BAD_ROW for _ in broken)])
        kept = [entry for entry in entries if entry.row is not None]
        for entry in entries:
            item = _item(entry, workspace)
            record.add(item)
            if entry.row is None and entry.refused is None:
                gates.refusals.append(Refusal(item.id, item.outcome, item.why))
        before = changes.read(workspace.dataset)
        if kept:
            with progress.bar("write the dataset"):
                _write(workspace.dataset, _files(kept, gates, config, before, on_file.read(workspace)))
        else:
            place = workspace.dataset if before is None else record.folder
            store.write_bytes(place / _GATES, store.pretty_json(_report(gates)))
            record.note(f"why no pair is a row: {place / _GATES}")
        if not any(trainable(entry.row) for entry in kept if entry.row is not None):
            record.note(card.UNCONFIRMED)
        return record.finish({"pairs": ordered(counts, RowOutcome)})


def require_rows(summary: Summary) -> None:
    """End with an error if a build has no row.

    Raises:
        InputError: it has none, with the commonest reasons.
    """
    if any(summary.counts["pairs"].get(outcome) for outcome in _ROWS):
        return
    reasons = Counter((item.outcome, item.why) for item in summary.results).most_common(_REASONS)
    listed = "; ".join(f"{count} {outcome} ({why})" for (outcome, why), count in reasons)
    hint = "see gates.json; kcurate validate judges pairs"
    raise InputError(f"no pair is a row: {listed}", where=summary.workspace, hint=hint)


def _item(entry: _Entry, workspace: Workspace) -> Item:
    item_of_entry = items.standing("pairs", entry.outcome, entry.best, entry.pair, workspace)
    if entry.refused is None:
        return item_of_entry
    following = command(workspace.root, "show", entry.candidate.id)
    return replace(
        item_of_entry, why=entry.refused.detail, file=str(entry.pair.folder / "pair.json"), next=following
    )


def _read(
    folders: Iterable[Path], workspace: Workspace
) -> tuple[list[readable.Judged], list[readable.Unreadable]]:
    """The pairs with all their verdicts, and the unreadable folders."""
    pairs: list[readable.Judged] = []
    broken: list[readable.Unreadable] = []
    for reading in readable.judged(folders, workspace):
        if isinstance(reading, readable.Unreadable):
            broken.append(reading)
        else:
            pairs.append(reading)
    return pairs, broken


def _refusal(unreadable: readable.Unreadable, workspace: Workspace) -> Refusal:
    """The refusal of an unreadable pair; paths are relative, so that none of this machine is published."""
    inside = unreadable.folder.is_relative_to(workspace.pairs)
    name = unreadable.folder.relative_to(workspace.pairs if inside else resources.pairs_dir()).as_posix()
    return Refusal(name, BAD_ROW, f"{unreadable.file}: {unreadable.why}")


def _entries(pairs: Iterable[readable.Judged], workspace: Workspace) -> list[_Entry]:
    """Every pair with its row, confirmed ones first, so that they win over similar ones."""
    taken: set[str] = set()
    entries = []
    for pair in pairs:
        entry = _decide(pair, taken, workspace)
        if entry.row is not None:
            taken.add(pair.candidate.id)
        entries.append(entry)
    return sorted(entries, key=lambda entry: (entry.outcome is not RowOutcome.CONFIRMED, entry.candidate.id))


def _decide(pair: readable.Judged, taken: set[str], workspace: Workspace) -> _Entry:
    """The outcome, and the row with the standing verdict."""
    current = standing.current(pair.candidate, pair.verdicts)
    best = standing.best(current)
    if best is None:
        return _Entry(pair, RowOutcome.STALE if pair.verdicts else RowOutcome.NOT_JUDGED)
    if pair.candidate.id in taken:
        return _Entry(pair, RowOutcome.SAME_ID, best)
    if best.outcome.value not in _ROWS:
        return _Entry(pair, RowOutcome.REFUSED, best)
    row_of_pair = row(
        pair.candidate, best, standing.elsewhere(current, best), _kernels(pair.candidate, workspace)
    )
    return _Entry(pair, RowOutcome(best.outcome.value), best, row_of_pair)


def _kernels(candidate: Candidate, workspace: Workspace) -> list[Kernel]:
    """The kernels of the pair's origin that were extracted into this workspace."""
    kernels = []
    for name in candidate.origin.kernels:
        with contextlib.suppress(InputError):
            kernels.append(store.read_json(workspace.kernels / name / "kernel.json", Kernel))
    return kernels


def _gated(entry: _Entry, gates: Gates) -> _Entry:
    why_not = unsanitized(entry.candidate, entry.best) if entry.best is not None else None
    refused = gates.offer(entry.row, why_not) if entry.row is not None else None
    if refused is None:
        return entry
    return replace(entry, outcome=RowOutcome(refused.reason), row=None, refused=refused)


def _files(
    kept: Sequence[_Entry],
    gates: Gates,
    config: BuildConfig,
    before: changes.History | None,
    counted: on_file.Profiles,
) -> dict[str, bytes]:
    """The files of the dataset: path to content."""
    rows = sorted(
        (entry.row for entry in kept if entry.row is not None), key=lambda each_row: str(each_row["id"])
    )
    places = splits.assign(rows, config.test_share)
    by_split = {
        split: [each_row for each_row in rows if places[each_row["id"]] == split] for split in parquet.SPLITS
    }
    by_split = {split: inside for split, inside in by_split.items() if inside}
    history = changes.follow(before, by_split, config.version)
    wrong = list(store.read_jsonl(repairs.facts(), WrongAttempt)) if config.built_in else []
    untaught: dict[str, Untaught] = {}
    candidates = {entry.candidate.id: entry.candidate for entry in kept}
    both = {
        each_row["id"]: two
        for each_row in rows
        if (two := _both(each_row, candidates[each_row["id"]], counted)) is not None
    }
    tables_by_split: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for split, inside in by_split.items():
        tuned, out = tables(inside, wrong, test=split == "test", counted=both)
        untaught |= out
        of_sides = [
            each
            for each_row in inside
            for each in profile_rows.rows(each_row, candidates[each_row["id"]], counted)
        ]
        tables_by_split[split] = {"pairs": inside, **tuned, "profiles": of_sides}
    built = {
        name: some
        for name in parquet.CONFIGS
        if (some := {split: inside[name] for split, inside in tables_by_split.items() if inside[name]})
    }
    counts = {name: {split: len(inside) for split, inside in some.items()} for name, some in built.items()}
    files = {
        parquet.data_file(name, split): parquet.to_bytes(name, inside)
        for name, some in built.items()
        for split, inside in some.items()
    }
    taught = [each_row for inside in tables_by_split.values() for each_row in inside["sft"]]
    content = card.Content(by_split, counts, gates, history.version, taught)
    speedups = [each_row["speedup"] for each_row in rows if trainable(each_row) and each_row["speedup"]]
    if speedups:
        title = f"Speedups of {len(speedups)} confirmed pairs"
        files[card.PLOT] = plot.speedups_svg(speedups, title).encode()
    return files | {
        "README.md": card.render(content).encode(),
        "ATTRIBUTION.md": licences.attribution(entry.candidate for entry in kept).encode(),
        "CHANGES.md": changes.to_markdown(history).encode(),
        changes.FILE: changes.to_json(history),
        _GATES: store.pretty_json(_report(gates) | {"untaught": untaught}),
    }


def _both(
    row: Mapping[str, Any], candidate: Candidate, counted: on_file.Profiles
) -> tuple[Profile, Profile] | None:
    """The profiles of both sides on the row's GPU."""
    slow, fast = (counted.of(candidate, side, row["device"]) for side in SIDES)
    return (slow, fast) if slow and fast else None


def _report(gates: Gates) -> dict[str, Any]:
    overlaps = sorted(gates.overlaps, key=lambda overlap: (-overlap.share, overlap.row, overlap.set))
    return {
        "refused": [asdict(refusal) for refusal in gates.refusals],
        "evaluation_sets": {tokens.name: len(tokens.items) for tokens in gates.sets},
        "overlaps": [asdict(overlap) for overlap in overlaps],
    }


def _set_aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _restore(folder: Path) -> None:
    """Restore the old folder after a run that was killed between the two renames of `_write`."""
    if not folder.exists() and _set_aside(folder).exists():
        _set_aside(folder).rename(folder)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Replace the folder by one with these files, through two renames."""
    new, old = folder.with_name(f".{folder.name}.new"), _set_aside(folder)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    for name, content in files.items():
        store.write_bytes(new / name, content)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
