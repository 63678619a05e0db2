"""The stage: reads pairs of a workspace (and the built-in ones) with their verdicts, writes one HTML file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

from kcurate.core import names, progress, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.core.workspace import Workspace
from kcurate.profiling import on_file
from kcurate.records import Candidate, Outcome, Summary
from kcurate.report.entries import Entry, entry
from kcurate.report.page import render
from kcurate.report.settings import ReportConfig
from kcurate.verdicts import items, readable


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
        outdated: list[tuple[Path, Candidate]] = []
        for reading in readable.judged(folders, workspace):
            if isinstance(reading, readable.Unreadable):
                counts[Outcome.MALFORMED.value] += 1
                record.note(f"left out: {reading}")
                record.add(items.unreadable("pairs", Outcome.MALFORMED, reading, workspace))
                continue
            candidate = reading.candidate
            row = entry(candidate, reading.verdicts, profiles)
            if items.has_earlier_code(candidate, workspace):
                row = replace(row, outdated=True)
                outdated.append((reading.folder, candidate))
            outcome = "same_id" if candidate.id in entries else row.outcome.replace(" ", "_")
            counts[outcome] += 1
            record.add(items.standing("pairs", outcome, row.best, reading, workspace))
            entries.setdefault(candidate.id, row)
        items.say_earlier_code(outdated, workspace, record.note)
        with progress.bar("write the page"):
            about = {"written": date.today().isoformat(), "workspace": str(config.workspace)}
            page = render([entries[key] for key in sorted(entries)], about)
        store.write_bytes(config.path, page.encode("utf-8", "replace"))
        return record.finish({"pairs": dict(sorted(counts.items()))})
