"""Write the GPU results into docs/results/deopt.md, between its marks, and into two more pages.

    python benchmarks/deopt_docs.py

Reads `deopt.jsonl.zst` (the verdicts.jsonl of `deopt_rules.py --gpu`, packed) in docs/data/* and
`suites.jsonl` (verdicts of the candidates of Parboil and Rodinia) in docs/data/nvidia-h200. Draws the plot
too. An H100's verdicts stand beside the H200's in kernelcompare.md (the suites) and corpus.md (the built-in
pairs) of that folder. What a technique is worth goes into the built-in pairs.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from deopt_rules import in_order
from deopt_rules_plot import plot
from marked import fill
from worth import rows as own_rows
from worth import worth

from kcurate.core import resources, store
from kcurate.deopt.rules import RULES

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/data/nvidia-h200"
PAGE = ROOT / "docs/results/deopt.md"
SECOND = ROOT / "docs/data/nvidia-h100"
SECOND_MARK = f"{Path(__file__).name}, H100"
SUITES_PAGE = ROOT / "docs/results/kernelcompare.md"
CORPUS_PAGE = ROOT / "docs/results/corpus.md"
# Four file pairs of the paper are one pipeline, and one pair.
HISTO = "parboil/histo/pipeline"
SAME_CODE = "both sides have the same machine code"
COLUMNS = ("judged", "confirmed", "same machine code", "not faster", "other")
MEDIAN = "median speedup of the confirmed"
HEAD = f"| variant | {' | '.join((*COLUMNS, MEDIAN))} |\n|---|{'---:|' * 6}\n"

Row = dict[str, Any]


def rows(path: Path) -> list[Row]:
    """Verdicts on file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def made(row: Row) -> bool:
    """Whether it is the verdict of a candidate that rules made."""
    return "/deopt-" in row["candidate"]


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
        middle = f"{statistics.median(sure):.2f}" if sure else ""
        cells = (len(found), counts["confirmed"], same, counts["not_faster"] - same, other)
        lines.append(f"| `{name}` | {' | '.join(map(str, cells))} | {middle} |")
    return HEAD + "\n".join(lines) + "\n"


def said(verdicts: Sequence[Row], file: str, origin: str) -> str:
    """All results as one paragraph."""
    counts = Counter(row["outcome"] for row in verdicts)
    same = sum(row.get("detail") == SAME_CODE for row in verdicts)
    sides = len({row["candidate"].rsplit("/", 1)[0] for row in verdicts if row["outcome"] == "confirmed"})
    rest = {name: count for name, count in counts.items() if name not in ("confirmed", "not_faster")}
    others = ", ".join(f"{count} {name}" for name, count in sorted(rest.items()))
    return (
        f"Of all {len(verdicts)} {origin} ([rows](../data/nvidia-h200/{file})),\n"
        f"{counts['confirmed']} are confirmed, from {sides} fast sides, with a median speedup of "
        f"{statistics.median(ratios(verdicts, 'confirmed')):.2f}.\n"
        f"{same} have the machine code of the original, and {counts['not_faster'] - same} more are not "
        f"slower by 2% or more. Others: {others}.\n"
    )


def interval(row: Row) -> str:
    """A ratio with its interval, or what stands in its place."""
    measured = row.get("speedup")
    if measured is None:
        return ""
    return f"{measured['ratio']:.2f} ({measured['low']:.2f} to {measured['high']:.2f})"


def suites_tables(page: str, verdicts: Sequence[Row]) -> str:
    """The page with the result in every row of its tables that names a natural pair with a verdict."""
    natural = {row["candidate"]: row for row in verdicts if not made(row)}
    lines = []
    for line in page.splitlines():
        first, *rest = [cell.strip() for cell in line.strip()[1:-1].split("|")]
        name = first.strip("`")
        if line.startswith("| `") and (one := natural.get(_candidate(name))) is not None:
            outcome = one["outcome"] + (f": {interval(one)}" if one.get("speedup") else "")
            line = f"| {' | '.join([first, outcome, *rest[1:]])} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _candidate(name: str) -> str:
    return HISTO if name.startswith("histo/") else f"parboil/{name}"


def counts_table(verdicts: Sequence[Row]) -> str:
    """Outcomes by origin, and the spread of the confirmed ratios."""
    kinds = {
        "natural pairs (Parboil)": [row for row in verdicts if not made(row)],
        "made by rules, Parboil": [
            row for row in verdicts if row["candidate"].startswith("parboil") and made(row)
        ],
        "made by rules, Rodinia": [row for row in verdicts if row["candidate"].startswith("rodinia")],
        "all": list(verdicts),
    }
    names = list(dict.fromkeys(["confirmed", "not_faster", *sorted({row["outcome"] for row in verdicts})]))
    lines = [f"| | {' | '.join(name.replace('_', ' ') for name in names)} |", f"|---|{'---:|' * len(names)}"]
    for kind, found in kinds.items():
        counts = Counter(row["outcome"] for row in found)
        lines.append(f"| {kind} | {' | '.join(str(counts[name]) for name in names)} |")
    sure = ratios(verdicts, "confirmed")
    middle = f"have a median of {statistics.median(sure):.2f}, from {sure[0]:.2f} to {sure[-1]:.1f}."
    spread = f"The {len(sure)} confirmed ratios {middle}"
    return "\n".join([*lines, "", spread])


def labels_table(verdicts: Iterable[Row]) -> str:
    """What taking a labelled technique away from a built-in fast side costs, by technique."""
    pairs = {one.id: one for one in map(store.read_candidate, store.find_candidates(resources.pairs_dir()))}
    removes = {rule.name: rule.technique for rule in RULES}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in verdicts:
        name, rule = row["candidate"].rsplit("/deopt-", 1)
        pair, technique = pairs.get(name), removes.get(rule)
        if pair is not None and technique in pair.techniques:
            found[str(technique)][row["outcome"]] += 1
    total = sum(found.values(), Counter[str]())
    lines = [
        "| technique | slower by 2% or more | not | undecided, or too much slower |",
        "|---|---:|---:|---:|",
    ]
    for name, counts in [*sorted(found.items()), ("all", total)]:
        rest = counts.total() - counts["confirmed"] - counts["not_faster"]
        lines.append(f"| {name} | {counts['confirmed']} | {counts['not_faster']} | {rest} |")
    return "\n".join(lines)


def write_worth(verdicts: Iterable[Row]) -> None:
    """Put what each technique is worth into the built-in pairs."""
    folders = {store.read_candidate(one).id: one for one in store.find_candidates(resources.pairs_dir())}
    pairs = {name: store.read_candidate(folder) for name, folder in folders.items()}
    known = worth(verdicts, pairs)
    for name, folder in folders.items():
        found = known.get(name, {})
        named = {one: found[one] for one in pairs[name].techniques if one in found}
        if named != pairs[name].worth:
            store.write_candidate(folder, replace(pairs[name], worth=named))


def built_in(device: str) -> list[Row]:
    """The verdicts of the built-in pairs from the GPU whose files have this name."""
    pairs = ROOT / "pairs"
    return [json.loads(path.read_text()) for path in sorted(pairs.glob(f"*/*/verdicts/{device}.json"))]


def second_gpu(first: Iterable[Row], second: Iterable[Row], shown: int) -> str:
    """What an H100 says of what an H200 judged: how far they agree, and the `shown` largest differences."""
    others = {row["candidate"]: row for row in second}
    both = [(row, others[row["candidate"]]) for row in first if row["candidate"] in others]
    # A key names the protocol too, so only verdicts of one protocol can show that the code changed.
    if any(one["protocol"] == other["protocol"] and one["key"] != other["key"] for one, other in both):
        raise SystemExit("verdicts of one candidate have different keys: judge both again")
    same = sum(one["outcome"] == other["outcome"] for one, other in both)
    timed = [(one, other) for one, other in both if {one["outcome"], other["outcome"]} == {"confirmed"}]
    shares = sorted(other["speedup"]["ratio"] / one["speedup"]["ratio"] for one, other in timed)
    off = sorted(abs(share - 1.0) for share in shares)
    middle, most = statistics.median(off), off[9 * len(off) // 10]
    text = (
        f"{len(both)} have a verdict from both GPUs; {same} have the same outcome. Where both confirm,\n"
        f"the H100's ratio is {statistics.median(shares):.2f} of the H200's in the median, from "
        f"{shares[0]:.2f} to {shares[-1]:.2f}; half differ by\n"
        f"at most {middle:.0%}, nine in ten by at most {most:.0%}."
    )
    changed = [(one, other) for one, other in both if one["outcome"] != other["outcome"]]
    timed.sort(key=lambda two: -abs(math.log(two[1]["speedup"]["ratio"] / two[0]["speedup"]["ratio"])))
    lines = ["| candidate | on an H200 | on an H100 |", "|---|---|---|"]
    for one, other in [*changed, *timed][:shown]:
        cells = (f"{row['outcome'].replace('_', ' ')} {interval(row)}".strip() for row in (one, other))
        lines.append(f"| `{one['candidate']}` | {' | '.join(cells)} |")
    return "\n".join([text, "", *lines]) if shown else text


def main() -> None:
    """Fill the pages and draw the plot."""
    every = rows(DATA / "suites.jsonl")
    SUITES_PAGE.write_text(suites_tables(SUITES_PAGE.read_text(), every))
    fill(SUITES_PAGE, Path(__file__).name, counts_table(every))
    fill(SUITES_PAGE, SECOND_MARK, second_gpu(every, rows(SECOND / "suites.jsonl"), 0))
    both = (built_in("nvidia-h200"), built_in("nvidia-h100-80gb-hbm3"))
    fill(CORPUS_PAGE, SECOND_MARK, second_gpu(*both, 6))
    own, suites = own_rows(), [row for row in every if made(row)]
    write_worth(own)
    fill(CORPUS_PAGE, Path(__file__).name, labels_table(own))
    timed = {name: ratios(found) for name, found in by_variant(own).items()}
    (DATA / "deopt-speedups.svg").write_text(plot(timed))
    text = "\n".join(
        (
            "### The built-in fast sides\n",
            said(own, "deopt.jsonl.zst", "candidates of one rule or of all together"),
            "![speedups by rule](../data/nvidia-h200/deopt-speedups.svg)\n",
            table(own),
            "### Parboil and Rodinia\n",
            said(suites, "suites.jsonl", "candidates that rules made from the suites' kernels"),
        )
    )
    fill(PAGE, Path(__file__).name, text)


if __name__ == "__main__":
    main()
