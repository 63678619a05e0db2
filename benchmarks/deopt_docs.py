"""Write the rules' GPU results into docs/deopt-rules.md, between its marks, and draw the plot.

    python benchmarks/deopt_docs.py

Reads `deopt.jsonl` (the verdicts.jsonl of `deopt_rules.py --gpu`) and `suites.jsonl` (verdicts of the
candidates of Parboil and Rodinia) in docs/data/nvidia-h200.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from deopt_rules import in_order
from deopt_rules_plot import plot
from marked import fill

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/data/nvidia-h200"
PAGE = ROOT / "docs/deopt-rules.md"
SAME_CODE = "both sides have the same machine code"
COLUMNS = ("judged", "confirmed", "same machine code", "not faster", "other")
SPREAD = ("lowest speedup of the confirmed", "median", "highest")
HEAD = f"| variant | {' | '.join((*COLUMNS, *SPREAD))} |\n|---|{'---:|' * 8}\n"

Row = dict[str, Any]


def rows(path: Path) -> list[Row]:
    """The verdicts of candidates that rules made."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [row for row in found if "/deopt-" in row["candidate"]]


def by_variant(verdicts: Iterable[Row]) -> dict[str, list[Row]]:
    """Verdicts by the rule or rung that made the slow side, in the order of the rules."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in verdicts:
        found[row["candidate"].rsplit("/deopt-", 1)[1]].append(row)
    return {name: found[name] for name in in_order(found)}


def ratios(verdicts: Iterable[Row], *outcomes: str) -> list[float]:
    """Speedups of the verdicts that have one, sorted."""
    chosen = (row for row in verdicts if not outcomes or row["outcome"] in outcomes)
    return sorted(row["speedup"]["ratio"] for row in chosen if row.get("speedup"))


def table(verdicts: Iterable[Row]) -> str:
    """Outcomes and speedups by variant, in Markdown."""
    lines = []
    for name, found in by_variant(verdicts).items():
        same = sum(row.get("detail") == SAME_CODE for row in found)
        counts = Counter(row["outcome"] for row in found)
        other = len(found) - counts["confirmed"] - counts["not_faster"]
        sure = ratios(found, "confirmed")
        spread = " | ".join(f"{f(sure):.2f}" for f in (min, statistics.median, max)) if sure else "| | "
        cells = (len(found), counts["confirmed"], same, counts["not_faster"] - same, other)
        lines.append(f"| `{name}` | {' | '.join(map(str, cells))} | {spread} |")
    return HEAD + "\n".join(lines) + "\n"


def said(verdicts: Sequence[Row], file: str, origin: str) -> str:
    """All results as one paragraph."""
    counts = Counter(row["outcome"] for row in verdicts)
    same = sum(row.get("detail") == SAME_CODE for row in verdicts)
    sides = len({row["candidate"].rsplit("/", 1)[0] for row in verdicts if row["outcome"] == "confirmed"})
    rest = {name: count for name, count in counts.items() if name not in ("confirmed", "not_faster")}
    others = ", ".join(f"{count} {name}" for name, count in sorted(rest.items()))
    return (
        f"Of all {len(verdicts)} {origin} (rows in [data/nvidia-h200/{file}](data/nvidia-h200/{file})),\n"
        f"{counts['confirmed']} are confirmed, from {sides} fast sides, with a median speedup of "
        f"{statistics.median(ratios(verdicts, 'confirmed')):.2f}.\n"
        f"{same} have the machine code of the original, and {counts['not_faster'] - same} more are not "
        f"slower by 2% or more. Others: {others}.\n"
    )


def main() -> None:
    """Fill the page and draw the plot."""
    own, suites = rows(DATA / "deopt.jsonl"), rows(DATA / "suites.jsonl")
    timed = {name: ratios(found) for name, found in by_variant(own).items()}
    (DATA / "deopt-speedups.svg").write_text(plot(timed))
    text = "\n".join(
        (
            "### The built-in fast sides\n",
            said(own, "deopt.jsonl", "candidates of one rule or of all together"),
            "![speedups by rule](data/nvidia-h200/deopt-speedups.svg)\n",
            table(own),
            "### Parboil and Rodinia\n",
            said(suites, "suites.jsonl", "candidates that rules made from the suites' kernels"),
            table(suites),
        )
    )
    fill(PAGE, Path(__file__).name, text)


if __name__ == "__main__":
    main()
