"""The stage: reads pairs of a workspace (and the built-in ones) with their verdicts, writes one HTML file.

The page fetches nothing. Data is JSON in script elements, with every `<` escaped, so that no text can end its
element. The details of pairs are compressed, so that thousands of pairs load quickly.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from html import escape
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any

from kcurate.core import names, progress, store
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.core.workspace import Workspace
from kcurate.profiling import on_file
from kcurate.records import Candidate, Outcome, Summary
from kcurate.report.entries import Entry, entry, line, part, three
from kcurate.report.settings import ReportConfig
from kcurate.verdicts import items, readable

# Pairs compressed together. Neighbours share code: larger groups compress better, and take longer to inflate.
GROUP = 16
# What each check of a verdict found to hold, for a reader of the page; compute-sanitizer's tools come last.
CHECKS: Mapping[str, str] = json.loads((files("kcurate.report") / "assets" / "checks.json").read_bytes())
_SCRIPTS = ("table.js", "plot.js", "diff.js", "pair.js")


def render(entries: Sequence[Entry], about: Mapping[str, str] | None = None) -> str:
    """The whole page as HTML; `about`: further facts for its head, such as the date."""
    lines = [line(entry) for entry in entries]
    filled = {
        "/*STYLE*/": _asset("style.css"),
        "<!--FIGURES-->": _figures(entries, lines, about or {}),
        "<!--LINES-->": _embedded(lines),
        "<!--PARTS-->": _embedded(
            {"group": GROUP, "packed": packed([part(entry) for entry in entries]), "checks": CHECKS}
        ),
        "/*SCRIPT*/": "\n".join(_asset(name) for name in _SCRIPTS),
    }
    page = _asset("page.html")
    pieces: list[str] = []
    for mark, text in filled.items():  # in page order: inserted text is not searched again
        before, _, page = page.partition(mark)
        pieces += [before, text]
    return "".join([*pieces, page])


def packed(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Details in groups of `GROUP`, deflated and in base64; the page inflates a group to show one of it."""
    groups = (_embedded(list(parts[start : start + GROUP])) for start in range(0, len(parts), GROUP))
    return [b64encode(zlib.compress(group.encode("utf-8", "replace"), 9)).decode() for group in groups]


def _asset(name: str) -> str:
    return (files("kcurate.report") / "assets" / name).read_text(encoding="utf-8")


def _embedded(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _figures(entries: Sequence[Entry], lines: Sequence[Mapping[str, Any]], about: Mapping[str, str]) -> str:
    """The headline: four figures, then how they were measured, and `about`."""
    figures = "".join(
        f"<div><dt>{escape(label)}</dt><dd><strong>{escape(value)}</strong> "
        f"<small>{escape(note)}</small></dd></div>"
        for label, value, note in _tiles(lines)
    )
    standing = [entry.best for entry in entries if entry.best]
    facts = {
        "driver": _some({verdict.environment.driver for verdict in standing}),
        "compiler": _some({verdict.environment.compiler for verdict in standing}),
        "kcurate": _some({verdict.environment.kcurate for verdict in standing}),
        "protocol": _some({verdict.protocol for verdict in standing}),
        **about,
    }
    measured_by = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>"
        for label, value in facts.items()
        if value
    )
    return f'<dl id="figures">{figures}</dl><dl id="facts">{measured_by}</dl>'


def _tiles(lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Label, value and remark: how many pairs, how much faster, with which outcomes, on which devices."""
    families, domains = (len({line[key] for line in lines}) for key in ("family", "domain"))
    yield "pairs", f"{len(lines):,}", f"{_of(families, 'family', 'families')} in {_of(domains, 'domain')}"
    ratios = [line["speedup"] for line in lines if line["outcome"] == "confirmed" and line["speedup"]]
    if ratios:
        span = f"from {three(min(ratios))} to {three(max(ratios))} times as fast"
        yield "median speedup", f"{three(median(ratios))} times", span
    else:
        yield "speedup", "not measured", "that needs a GPU (kcurate validate)"
    outcomes = Counter(line["outcome"].replace("_", " ") for line in lines).most_common()
    devices = Counter(line["device"] or "no device" for line in lines).most_common()
    yield "outcomes", *_first(f"{number:,} {outcome}" for outcome, number in outcomes)
    yield (
        "judged on",
        *_first(device if len(devices) == 1 else f"{device} ({number:,})" for device, number in devices),
    )


def _first(texts: Iterable[str]) -> tuple[str, str]:
    """The first text, and the others joined by commas."""
    first, *others = [*texts] or ["none"]
    return first, ", ".join(others)


def _some(values: Collection[str | None]) -> str:
    """Up to three of the values that are known, in order, and how many more there are."""
    present = sorted(value for value in values if value)
    first, further = present[:3], len(present) - 3
    return ", ".join([*first, *([f"{further} more"] if further > 0 else [])])


def _of(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


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
            ours = any(folder.resolve().is_relative_to(workspace.root.resolve()) for folder in folders)
            about = {"written": date.today().isoformat(), "workspace": str(config.workspace) if ours else ""}
            page = render([entries[key] for key in sorted(entries)], about)
        store.write_bytes(config.path, page.encode("utf-8", "replace"))
        return record.finish({"pairs": dict(sorted(counts.items()))})
