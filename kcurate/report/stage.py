"""The stage: pairs of a workspace (and the built-in ones) with their verdicts in, one HTML file out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kcurate.core import names, progress, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.core.workspace import Workspace
from kcurate.profiles import on_file
from kcurate.records import Outcome, Summary
from kcurate.report.entries import Entry, entry
from kcurate.report.page import render
from kcurate.verdicts import items, readable

FILE = "report.html"


@dataclass(frozen=True)
class ReportConfig:
    """What to show. `out` None: `report.html` in the workspace; `pairs`: only these, by path or name."""

    workspace: Path
    built_in: bool = False
    out: Path | None = None
    pairs: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The file to write."""
        return self.out or self.workspace / FILE


@store.without_collector()
def run(config: ReportConfig, *, note: Note = silent) -> Summary:
    """Write the page; the counts are over the pairs, by standing outcome.

    An unreadable pair is counted as malformed, named in a note, and not on the page.

    Raises:
        InputError: no pairs, or a file cannot be read or written.
    """
    workspace = Workspace(config.workspace)
    folders = (
        names.pairs(config.pairs, workspace)
        if config.pairs
        else readable.pair_folders(workspace, built_in=config.built_in)
    )
    with recorded("report", config.workspace, note=note) as record:
        record.begin(config)
        entries: dict[str, Entry] = {}
        counts: Counter[str] = Counter()
        profiles = on_file.read(workspace)
        for found in readable.judged(folders, workspace):
            if isinstance(found, readable.Unreadable):
                counts[Outcome.MALFORMED.value] += 1
                record.note(f"left out: {found}")
                record.add(items.unreadable("pairs", Outcome.MALFORMED, found, workspace))
                continue
            candidate = found.candidate
            made = entry(candidate, found.verdicts, profiles)
            outcome = "same_id" if candidate.id in entries else made.outcome.replace(" ", "_")
            counts[outcome] += 1
            record.add(items.standing("pairs", outcome, made.best, found, workspace))
            entries.setdefault(candidate.id, made)
        with progress.bar("write the page"):
            page = render([entries[key] for key in sorted(entries)])
        store.write_bytes(config.path, page.encode("utf-8", "replace"))
        return record.finish({"pairs": dict(sorted(counts.items()))})
