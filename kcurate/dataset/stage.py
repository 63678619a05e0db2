"""The stage: workspace and built-in pairs with their verdicts in, a local dataset folder out.

Every pair ends with one outcome: a row, or why it is not one. Equal input gives equal bytes. Not covered:
publishing (`kcurate.dataset.push`).
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from kcurate.core import progress, resources, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import command, ordered, recorded
from kcurate.core.workspace import Workspace
from kcurate.dataset import card, changes, licences, parquet, plot, profiles, repairs, splits
from kcurate.dataset.gates import BAD_ROW, Gates, Refusal, Rules, unsanitized
from kcurate.dataset.rows import row
from kcurate.dataset.tuning import tables, trainable
from kcurate.errors import InputError
from kcurate.problem.lessons import Untaught
from kcurate.profiles import on_file
from kcurate.records import SIDES, Candidate, Item, Kernel, Profile, Summary, Verdict, WrongAttempt
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
class BuildConfig:
    """What to build from: the workspace's pairs and, with `built_in`, those shipped with the package.

    `version` None: the next one after that of the existing dataset. `test_share`: of the families that share
    no core with many others, 0 to 1.
    """

    workspace: Path
    built_in: bool = False
    rules: Rules = field(default_factory=Rules)
    version: str | None = None
    test_share: float = splits.TEST_SHARE


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
        for found in broken:
            gates.refusals.append(_refusal(found, workspace))
            record.note(f"left out: {found}")
            record.add(items.unreadable("pairs", RowOutcome.BAD_ROW, found, workspace))
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
    made = items.standing("pairs", entry.outcome, entry.best, entry.pair, workspace)
    if entry.refused is None:
        return made
    following = command(workspace.root, "show", entry.candidate.id)
    return replace(made, why=entry.refused.detail, file=str(entry.pair.folder / "pair.json"), next=following)


def _read(
    folders: Iterable[Path], workspace: Workspace
) -> tuple[list[readable.Judged], list[readable.Unreadable]]:
    """The pairs with all their verdicts, and the unreadable folders."""
    pairs: list[readable.Judged] = []
    broken: list[readable.Unreadable] = []
    for found in readable.judged(folders, workspace):
        if isinstance(found, readable.Unreadable):
            broken.append(found)
        else:
            pairs.append(found)
    return pairs, broken


def _refusal(found: readable.Unreadable, workspace: Workspace) -> Refusal:
    """The refusal of an unreadable pair; paths are relative, so that none of this machine is published."""
    inside = found.folder.is_relative_to(workspace.pairs)
    name = found.folder.relative_to(workspace.pairs if inside else resources.pairs_dir()).as_posix()
    return Refusal(name, BAD_ROW, f"{found.file}: {found.why}")


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
    made = row(pair.candidate, best, standing.elsewhere(current, best), _kernels(pair.candidate, workspace))
    return _Entry(pair, RowOutcome(best.outcome.value), best, made)


def _kernels(candidate: Candidate, workspace: Workspace) -> list[Kernel]:
    """The kernels of the pair's origin that were extracted into this workspace."""
    found = []
    for name in candidate.origin.kernels:
        with contextlib.suppress(InputError):
            found.append(store.read_json(workspace.kernels / name / "kernel.json", Kernel))
    return found


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
    rows = sorted((entry.row for entry in kept if entry.row is not None), key=lambda one: str(one["id"]))
    places = splits.assign(rows, config.test_share)
    by_split = {split: [one for one in rows if places[one["id"]] == split] for split in parquet.SPLITS}
    by_split = {split: inside for split, inside in by_split.items() if inside}
    history = changes.follow(before, by_split, config.version)
    wrong = list(store.read_jsonl(repairs.facts(), WrongAttempt)) if config.built_in else []
    untaught: dict[str, Untaught] = {}
    candidates = {entry.candidate.id: entry.candidate for entry in kept}
    both = {one["id"]: two for one in rows if (two := _both(one, candidates[one["id"]], counted)) is not None}
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for split, inside in by_split.items():
        tuned, out = tables(inside, wrong, test=split == "test", counted=both)
        untaught |= out
        of_sides = [each for one in inside for each in profiles.rows(one, candidates[one["id"]], counted)]
        found[split] = {"pairs": inside, **tuned, "profiles": of_sides}
    made = {
        name: some
        for name in parquet.CONFIGS
        if (some := {split: inside[name] for split, inside in found.items() if inside[name]})
    }
    counts = {name: {split: len(inside) for split, inside in some.items()} for name, some in made.items()}
    files = {
        parquet.data_file(name, split): parquet.to_bytes(name, inside)
        for name, some in made.items()
        for split, inside in some.items()
    }
    taught = [one for inside in found.values() for one in inside["sft"]]
    content = card.Content(by_split, counts, gates, history.version, taught)
    speedups = [one["speedup"] for one in rows if trainable(one) and one["speedup"]]
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
    overlaps = sorted(gates.overlaps, key=lambda one: (-one.share, one.row, one.set))
    return {
        "refused": [asdict(refusal) for refusal in gates.refusals],
        "evaluation_sets": {one.name: len(one.items) for one in gates.sets},
        "overlaps": [asdict(one) for one in overlaps],
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
