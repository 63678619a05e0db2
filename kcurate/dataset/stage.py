"""`kcurate build`: reads pairs of a workspace (and the built-in ones) with their verdicts, writes a dataset.

Every pair ends with one outcome: a row, or the reason why there is none. Equal input gives equal bytes. Not
covered: publishing (`kcurate.dataset.push`).
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
from kcurate.dataset import card, changes, croissant, licences, parquet, repairs
from kcurate.dataset.columns import CONFIGS, TEXTS
from kcurate.dataset.gates import BAD_ROW, Gates, Refusal, lacking
from kcurate.dataset.rows import poses_task, profile_rows, task_rows
from kcurate.dataset.rows import row as row_of
from kcurate.dataset.settings import BuildConfig
from kcurate.dataset.tuning import tables, trainable
from kcurate.errors import InputError
from kcurate.problem.lessons import Untaught
from kcurate.profiling import on_file
from kcurate.records import SIDES, Candidate, Item, Kernel, Profile, Summary, Verdict, WrongAttempt
from kcurate.reward import splits
from kcurate.verdicts import items, readable, standing


class RowOutcome(StrEnum):
    """A pair's outcome: a row (the first two), or why not.

    `task`: a minted problem with its plain side, which is a row of `tasks` only.
    `stale`: its verdicts are on other content, or of an older protocol of the judge.
    """

    CONFIRMED = "confirmed"
    CORRECT = "correct"
    TASK = "task"
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
    IMPORTED = "imported"
    UNSANITIZED = "unsanitized"
    UNSEARCHED = "unsearched"
    LEAKED = "leaked"


Rows = list[dict[str, Any]]
_ROWS = (RowOutcome.CONFIRMED, RowOutcome.CORRECT)
_GATES = "gates.json"
# How many of the most frequent reasons the error names if no pair becomes a row.
_REASONS = 3


@dataclass(frozen=True)
class _Entry:
    pair: readable.Judged
    outcome: RowOutcome
    best: Verdict | None = None
    row: dict[str, Any] | None = None
    refused: Refusal | None = None
    kernels: tuple[Kernel, ...] = ()

    @property
    def candidate(self) -> Candidate:
        return self.pair.candidate


@store.without_collector()
def run(config: BuildConfig, *, note: Note = silent) -> Summary:
    """Write `dataset/` of the workspace, completely or not at all; unreadable pairs are named in notes.

    If no pair becomes a row, an existing dataset is kept and `gates.json` is written into the run's folder;
    without one, `gates.json` is the only file in `dataset/`.

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
        items.say_earlier_code(((pair.folder, pair.candidate) for pair in pairs), workspace, record.note)
        for unreadable in broken:
            gates.refusals.append(_refusal(unreadable, workspace))
            record.note(f"left out: {unreadable}")
            record.add(items.unreadable("pairs", RowOutcome.BAD_ROW, unreadable, workspace))
        with progress.bar("make rows"):
            entries = _entries(pairs, workspace)
        minimal = standing.minimal_templates((entry.candidate, entry.best) for entry in entries if entry.best)
        entries = [_gated(entry, gates, minimal) for entry in progress.each(entries, "check", unit="row")]
        with progress.bar("split"):
            entries, split_of = _split(entries, gates)
        counts = Counter[str]([*(entry.outcome for entry in entries), *(RowOutcome.BAD_ROW for _ in broken)])
        kept = [entry for entry in entries if entry.row is not None]
        posed = [entry.candidate for entry in entries if entry.outcome is RowOutcome.TASK]
        for entry in entries:
            item = _item(entry, workspace)
            record.add(item)
            if entry.row is None and entry.refused is None and entry.outcome is not RowOutcome.TASK:
                gates.refusals.append(Refusal(item.id, item.outcome, item.why))
        before = changes.read(workspace.dataset)
        if kept:
            with progress.bar("write the dataset"):
                profiles = on_file.read(workspace)
                _write(workspace.dataset, _files(kept, posed, split_of, gates, config, before, profiles))
        else:
            place = workspace.dataset if before is None else record.folder
            store.write_bytes(place / _GATES, store.pretty_json(_report(gates)))
            record.note(f"why no pair is a row: {place / _GATES}")
        if not any(trainable(entry.row) for entry in kept if entry.row is not None):
            record.note(TEXTS["unconfirmed"])
        return record.finish({"pairs": ordered(counts, RowOutcome)})


def require_rows(summary: Summary) -> None:
    """End with an error if a build has no row.

    Raises:
        InputError: it has none; the message has the most frequent reasons.
    """
    if any(summary.counts["pairs"].get(outcome) for outcome in _ROWS):
        return
    reasons = Counter((item.outcome, item.why) for item in summary.results).most_common(_REASONS)
    listed = "; ".join(f"{count} {outcome} ({why})" for (outcome, why), count in reasons)
    hint = "see gates.json; kcurate validate judges pairs"
    raise InputError(f"no pair is a row: {listed}", where=summary.workspace, hint=hint)


def _item(entry: _Entry, workspace: Workspace) -> Item:
    item = items.standing("pairs", entry.outcome, entry.best, entry.pair, workspace)
    if entry.refused is None:
        return item
    show = command(workspace.root, "show", entry.candidate.id)
    return replace(item, why=entry.refused.detail, file=str(entry.pair.folder / "pair.json"), next=show)


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
    """The refusal of an unreadable pair, with a relative path: `gates.json` is published."""
    in_workspace = unreadable.folder.is_relative_to(workspace.pairs)
    root = workspace.pairs if in_workspace else resources.pairs_dir()
    name = unreadable.folder.relative_to(root).as_posix()
    return Refusal(name, BAD_ROW, f"{unreadable.file}: {unreadable.why}")


def _entries(pairs: Iterable[readable.Judged], workspace: Workspace) -> list[_Entry]:
    """Every pair with its row; confirmed ones first, since the first of several duplicates is kept."""
    ids: set[str] = set()
    entries = []
    for pair in pairs:
        entry = _decide(pair, ids, workspace)
        if entry.row is not None:
            ids.add(pair.candidate.id)
        entries.append(entry)
    return sorted(entries, key=lambda entry: (entry.outcome is not RowOutcome.CONFIRMED, entry.candidate.id))


def _decide(pair: readable.Judged, earlier_ids: set[str], workspace: Workspace) -> _Entry:
    """The outcome, and the row with the standing verdict."""
    current = standing.current(pair.candidate, pair.verdicts)
    best = standing.best(current)
    if poses_task(pair.candidate) and not (best and best.outcome.refutes):
        return _Entry(pair, RowOutcome.TASK, best)
    if best is None:
        return _Entry(pair, RowOutcome.STALE if pair.verdicts else RowOutcome.NOT_JUDGED)
    if pair.candidate.id in earlier_ids:
        return _Entry(pair, RowOutcome.SAME_ID, best)
    if best.outcome.value not in _ROWS:
        return _Entry(pair, RowOutcome.REFUSED, best)
    others, kernels = standing.elsewhere(current, best), _kernels(pair.candidate, workspace)
    row = row_of(pair.candidate, best, others, kernels)
    return _Entry(pair, RowOutcome(best.outcome.value), best, row, kernels=tuple(kernels))


def _kernels(candidate: Candidate, workspace: Workspace) -> list[Kernel]:
    """The kernels of the pair's origin that were extracted into this workspace."""
    kernels = []
    for name in candidate.origin.kernels:
        with contextlib.suppress(InputError):
            kernels.append(store.read_json(workspace.kernels / name / "kernel.json", Kernel))
    return kernels


def _gated(entry: _Entry, gates: Gates, minimal: frozenset[str]) -> _Entry:
    lacks = lacking(entry.candidate, entry.best, minimal) if entry.best is not None else None
    ours = entry.candidate.origin.trust == "ours"
    unshown = None if ours else licences.unshown(entry.kernels)
    refused = gates.offer(entry.row, lacks, unshown) if entry.row is not None else None
    if refused is None:
        return entry
    return replace(entry, outcome=RowOutcome(refused.reason), row=None, refused=refused)


def _split(entries: Sequence[_Entry], gates: Gates) -> tuple[list[_Entry], dict[str, str]]:
    """The entries without rows that leak from the test split, and the split of each row and task, by id."""
    rows = [entry.row for entry in entries if entry.row is not None]
    problems = [
        {
            "id": entry.candidate.id,
            "family": entry.candidate.family,
            "slow_code": entry.candidate.fast.code,
            "fast_code": "",
        }
        for entry in entries
        if entry.outcome is RowOutcome.TASK
    ]
    sides = splits.assign([*rows, *problems])
    leaks = gates.leaks(rows, sides)
    kept = [
        replace(entry, outcome=RowOutcome.LEAKED, row=None, refused=leaks[entry.candidate.id])
        if entry.row is not None and entry.candidate.id in leaks
        else entry
        for entry in entries
    ]
    return kept, {name: side for name, side in sides.items() if side is not None and name not in leaks}


def _files(
    kept: Sequence[_Entry],
    posed: Sequence[Candidate],
    split_of: Mapping[str, str],
    gates: Gates,
    config: BuildConfig,
    before: changes.History | None,
    profiles: on_file.Profiles,
) -> dict[str, bytes]:
    """The files of the dataset: path to content."""
    rows = sorted((entry.row for entry in kept if entry.row is not None), key=lambda row: str(row["id"]))
    by_split = {
        split: split_rows
        for split in parquet.SPLITS
        if (split_rows := [row for row in rows if split_of[row["id"]] == split])
    }
    history = changes.follow(before, by_split, config.version)
    wrong = list(store.read_jsonl(repairs.facts(), WrongAttempt)) if config.built_in else []
    candidates = {entry.candidate.id: entry.candidate for entry in kept}
    configs, untaught = _configs(by_split, candidates, wrong, profiles)
    tasks = {
        split: list(task_rows(split_rows, (pair for pair in posed if split_of.get(pair.id) == split)))
        for split, split_rows in by_split.items()
    }
    configs = {"pairs": configs["pairs"], "tasks": tasks, **configs}
    tables_on_file = [
        file for config_name, table in configs.items() for file in parquet.data_files(config_name, table)
    ]
    files = {file.path: file.content for file in tables_on_file}
    taught = [row for split_rows in configs.get("sft", {}).values() for row in split_rows]
    lengths = {
        config_name: [row["text_bytes"] for split_rows in table.values() for row in split_rows]
        for config_name, table in configs.items()
        if "text_bytes" in CONFIGS[config_name]
    }
    content = card.Content(by_split, tables_on_file, gates, history.version, taught, lengths)
    speedups = [row["speedup"] for row in rows if trainable(row) and row["speedup"]]
    if speedups:
        title = f"Speedups of {len(speedups)} confirmed pairs"
        files[card.PLOT] = card.speedups_svg(speedups, title).encode()
    return files | {
        "README.md": card.render(content).encode(),
        "ATTRIBUTION.md": licences.attribution((entry.candidate, entry.kernels) for entry in kept).encode(),
        croissant.FILE: croissant.describe(card.NAME, TEXTS["lead"], history.version, tables_on_file),
        "CHANGES.md": changes.to_markdown(history).encode(),
        changes.FILE: changes.to_json(history),
        _GATES: store.pretty_json(_report(gates) | {"untaught": untaught}),
    }


def _configs(
    by_split: Mapping[str, Rows],
    candidates: Mapping[str, Candidate],
    wrong: Sequence[WrongAttempt],
    profiles: on_file.Profiles,
) -> tuple[dict[str, dict[str, Rows]], dict[str, Untaught]]:
    """The rows by config and split, without empty ones; and the pairs that are in no prompt."""
    untaught: dict[str, Untaught] = {}
    tables_of: dict[str, dict[str, Rows]] = {}
    for split, rows in by_split.items():
        both = {
            row["id"]: sides
            for row in rows
            if (sides := _both(row, candidates[row["id"]], profiles)) is not None
        }
        for_training, without_prompt = tables(rows, wrong, test=split == "test", counted=both)
        untaught |= without_prompt
        of_sides = [side for row in rows for side in profile_rows(row, candidates[row["id"]], profiles)]
        tables_of[split] = {"pairs": rows, **for_training, "profiles": of_sides}
    configs = {
        config: {split: by_config[config] for split, by_config in tables_of.items() if by_config[config]}
        for config in CONFIGS
        if config != "tasks"
    }
    return {config: table for config, table in configs.items() if table}, untaught


def _both(
    row: Mapping[str, Any], candidate: Candidate, profiles: on_file.Profiles
) -> tuple[Profile, Profile] | None:
    """The profiles of both sides on the row's GPU; None if one is missing."""
    slow, fast = (profiles.of(candidate, side, row["device"]) for side in SIDES)
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
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    for name, content in files.items():
        store.write_bytes(new / name, content)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
