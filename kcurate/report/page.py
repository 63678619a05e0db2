"""Assembles the file from `assets/`, data and plots; the page fetches nothing.

Data is JSON in script elements, with every `<` escaped, so that no text can end its element. The details of
pairs are compressed, so that thousands of pairs load quickly.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from kcurate.report import plots
from kcurate.report.entries import Entry, line, part

# Pairs compressed together. Neighbours share code: larger groups compress better, and take longer to inflate.
GROUP = 16
_SCRIPTS = ("table.js", "diff.js", "pair.js")


def render(entries: Sequence[Entry]) -> str:
    """The whole page as HTML."""
    lines = [line(entry) for entry in entries]
    filled = {
        "/*STYLE*/": _asset("style.css"),
        "<!--LEAD-->": _lead(lines),
        "<!--PLOTS-->": _plots(lines),
        "<!--LINES-->": _embedded(lines),
        "<!--PARTS-->": _embedded({"group": GROUP, "packed": packed([part(entry) for entry in entries])}),
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


def _lead(lines: Sequence[Mapping[str, Any]]) -> str:
    """One sentence: the number of pairs, the devices that judged them, and the counts of outcomes."""
    families, domains = (len({line[key] for line in lines}) for key in ("family", "domain"))
    counted = (
        f"{_of(len(lines), 'pair')} in {_of(families, 'family', 'families')} and {_of(domains, 'domain')}"
    )
    devices = ", ".join(sorted({line["device"] for line in lines if line["device"]}))
    outcomes = Counter(line["outcome"] for line in lines).most_common()
    ended = ", ".join(f"{number} {outcome.replace('_', ' ')}" for outcome, number in outcomes)
    return escape(f"{counted}{f' ({devices})' if devices else ''}: {ended}.")


def _of(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _plots(lines: Sequence[Mapping[str, Any]]) -> str:
    measured = [line for line in lines if line["outcome"] == "confirmed" and line["speedup"]]
    if not measured:
        return "<p>No speedup has been measured; that needs a GPU (<code>kcurate validate</code>).</p>"
    counted = [line for line in measured if "roofline" in line]
    plotted = {
        "Speedups and their intervals": plots.ladder(measured),
        "Copy bandwidth reached by the fast sides": plots.bandwidth(measured),
        **({"Roofline of the fast sides": plots.roofline(counted)} if counted else {}),
        "Speedup by domain": plots.by_group(measured, "domain", lambda line: [line["domain"]]),
        "Speedup by technique": plots.by_group(measured, "technique", lambda line: line["techniques"]),
    }
    return "\n".join(
        f"<figure><figcaption>{title}</figcaption>{svg}</figure>" for title, svg in plotted.items()
    )
