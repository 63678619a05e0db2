"""Kernels before and after a commit of public repositories: how many become pairs, and what the judge finds.

    kcurate extract REPOSITORY.git --history --no-compile -w WORKSPACE     one workspace a repository
    kcurate problem draft -w WORKSPACE
    python benchmarks/history_pairs.py count WORKSPACE...                  what came of them, without a GPU
    python benchmarks/history_pairs.py pack OUT WORKSPACE...               their pairs with a problem
    python benchmarks/history_pairs.py judge OUT --gpus 0 --seconds 180    needs a GPU
    python benchmarks/history_pairs.py table                               docs/results/history.md

`judge` appends a row a pair to docs/data/MODEL/history.jsonl and goes on where it stopped. Rows are facts: no
code of a repository and no text of a commit is in them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.backends import open_device
from kcurate.core import store
from kcurate.core.workspace import Workspace
from kcurate.judge.judging import JudgeConfig
from kcurate.judge.referees.batch import judge_many
from kcurate.records import Candidate, Outcome, Verdict
from kcurate.verdicts.keys import verdict_key

ROOT = Path(__file__).resolve().parent.parent
DATA, PAGE = ROOT / "docs/data", ROOT / "docs/results/history.md"
COUNTS = DATA / "history-counts.jsonl"
# Outcomes whose sentence is the compiler's, and so may quote code.
QUOTING = frozenset({Outcome.COMPILE_ERROR})
MAX_REASON = 160


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; none if it is missing."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def count(folders: Sequence[Path]) -> dict[str, Any]:
    """What became of one repository's history, in one workspace or several with different paths."""
    commits, changes = Counter[str](), Counter[str]()
    pairs: list[Candidate] = []
    drafted: set[str] = set()
    for workspace in map(Workspace, folders):
        for mark in (line for marks in workspace.history.glob("*.jsonl") for line in read_lines(marks)):
            commits[mark["outcome"]] += 1
            changes.update(mark["pairs"])
        pairs += map(store.read_candidate, store.find_candidates(workspace.pairs))
        for path in workspace.root.glob("runs/problem-draft-*/summary.json"):
            results = json.loads(path.read_text())["results"]
            drafted |= {item["id"] for item in results if item["kind"] == "pairs"}
    return {
        "repository": pairs[0].origin.suite,
        "url": pairs[0].origin.url,
        "commits": dict(sorted(commits.items())),
        "changes": dict(sorted(changes.items())),
        "drafted": len(drafted),
        "with_problem": sum(pair.problem is not None for pair in pairs),
    }


def repositories(folders: Sequence[Path]) -> list[list[Path]]:
    """The workspaces, those of one repository together."""
    groups: dict[str | None, list[Path]] = {}
    for folder in folders:
        first = store.read_candidate(store.find_candidates(Workspace(folder).pairs)[0])
        groups.setdefault(first.origin.url, []).append(folder)
    return list(groups.values())


def pack(out: Path, folders: Sequence[Path]) -> int:
    """Copy every pair with a problem into one folder; how many there are."""
    pairs = [
        store.read_candidate(path)
        for folder in folders
        for path in store.find_candidates(Workspace(folder).pairs)
    ]
    ready = [pair for pair in pairs if pair.problem is not None]
    for pair in ready:
        store.write_candidate(out / pair.id, pair)
    return len(ready)


def row_of(pair: Candidate, verdict: Verdict) -> dict[str, Any]:
    """A verdict as a row has it; `ratio`: the time before the commit over the time after it."""
    origin, speedup = pair.origin, verdict.speedup
    return {
        "key": verdict.key,
        "repository": origin.url or origin.suite,
        "base_revision": origin.base_revision,
        "revision": origin.revision,
        "path": origin.path,
        "kernel": pair.family,
        "problem": origin.problem,
        "claim": origin.claim,
        "outcome": str(verdict.outcome),
        "ratio": speedup.ratio if speedup else None,
        "low": speedup.low if speedup else None,
        "high": speedup.high if speedup else None,
        "before_us": verdict.slow.median_us if verdict.slow else None,
        "after_us": verdict.fast.median_us if verdict.fast else None,
        "reason": "" if verdict.outcome in QUOTING else verdict.detail[:MAX_REASON],
        "device": verdict.environment.device,
    }


def in_turn(pairs: Sequence[Candidate]) -> list[Candidate]:
    """The pairs of all repositories in turn, so that each has some when time is up."""
    places: Counter[str | None] = Counter()
    turns = []
    for pair in pairs:
        turns.append(places[pair.origin.suite])
        places[pair.origin.suite] += 1
    return [pairs[index] for index in sorted(range(len(pairs)), key=turns.__getitem__)]


def judge(folder: Path, gpus: tuple[int, ...], seconds: float, jobs: int, out: Path | None) -> None:
    """Append a row for each pair that has none, until time is up; `out` None: in docs/data."""
    with contextlib.closing(open_device("cuda", gpus[0])) as device:
        model = "-".join(device.environment().device.lower().split()[:2])
    kept = DATA / model / "history.jsonl"
    path = out or kept
    known = {row["key"] for row in (*read_lines(kept), *read_lines(path))}
    pairs = [store.read_candidate(place) for place in store.find_candidates(folder)]
    pairs = in_turn([pair for pair in pairs if pair.problem is not None and verdict_key(pair) not in known])
    end, outcomes = time.monotonic() + seconds, Counter[str]()
    path.parent.mkdir(parents=True, exist_ok=True)
    judged = judge_many(enumerate(pairs), JudgeConfig("cuda", gpus[0]), gpus=gpus, jobs=jobs)
    with contextlib.closing(judged), path.open("a") as lines:
        for index, verdict in judged:
            row = row_of(pairs[index], verdict)
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            outcomes[row["outcome"]] += 1
            print(pairs[index].id, row["outcome"], row["ratio"], row["reason"], flush=True)
            if time.monotonic() > end:
                break
    print(f"{outcomes.total()} of {len(pairs)} judged: {dict(outcomes)}")


def page(counts: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> str:
    """docs/results/history.md: the losses of each repository, and every pair that was judged."""
    total = Counter(row["outcome"] for row in rows)
    lines = [
        "# Pairs from the history of public repositories",
        "",
        "`kcurate extract --history` ([extraction.md](../extraction.md#history)) on the commits of public",
        "repositories, then `problem draft` on the emulator; pairs with an admitted problem were judged on",
        f"{rows[0]['device'] if rows else 'a GPU'}. Made by `benchmarks/history_pairs.py table` from",
        "[history-counts.jsonl](../data/history-counts.jsonl) and",
        "[history.jsonl](../data/nvidia-h200/history.jsonl). A ratio is the time before the commit over the",
        "time after it, with its interval. Of LeetCUDA, and of HeCBench since its sources are in `src/`,",
        "only commits whose message speaks of speed were read. Drafting went on while there was time, short",
        "kernels first and then those of such commits; about thirty drafts that were open (mostly a grid or",
        "a number of elements) were completed by hand.",
        "",
        "| repository | commits read | that change a kernel | kernels changed | other interface "
        "| made before | not read | pairs | drafted | with a problem | confirmed | not faster | other |",
        "|---|" + "---:|" * 12,
    ]
    sums = Counter[int]()
    for entry in counts:
        changes, commits = Counter(entry["changes"]), Counter(entry["commits"])
        judged = Counter(row["outcome"] for row in rows if row["repository"] == entry["url"])
        confirmed, slower = judged[Outcome.CONFIRMED], judged[Outcome.NOT_FASTER]
        cells = (
            commits.total(), commits["read"], changes.total(), changes["interface_changed"],
            changes["repeated"], changes["unread_kernel"], changes["pair"], entry["drafted"],
            entry["with_problem"], confirmed, slower, judged.total() - confirmed - slower,
        )  # fmt: skip
        sums.update(dict(enumerate(cells)))
        lines.append(f"| [{entry['repository']}]({entry['url']}) | " + " | ".join(map(str, cells)) + " |")
    lines.append("| together | " + " | ".join(str(sums[index]) for index in range(12)) + " |")
    shares = ", ".join(f"{number} {outcome.replace('_', ' ')}" for outcome, number in total.most_common())
    lines += ["", f"Of {len(rows)} pairs judged: {shares or 'none yet'}.", ""]
    lines += [
        "| kernel | repository | after | outcome | ratio | interval | reason |",
        "|---|---|---|---|---:|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (row["outcome"], -(row["ratio"] or 0), row["kernel"])):
        ratio = f"{row['ratio']:.2f}" if row["ratio"] else ""
        between = f"{row['low']:.2f} to {row['high']:.2f}" if row["low"] and row["high"] else ""
        reason = "" if row["outcome"] == Outcome.CONFIRMED else row["reason"].replace("|", "\\|")
        cells_of = (
            f"`{row['kernel']}`", str(row["repository"]).rsplit("/", 1)[-1], f"`{row['revision'][:10]}`",
            row["outcome"], ratio, between, reason,
        )  # fmt: skip
        lines.append("| " + " | ".join(cells_of) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("count", "pack", "judge", "table"))
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--gpus", default="0")
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--jobs", type=int, default=0, help="0: as suits the machine")
    parser.add_argument("--out", type=Path, help="the rows; default: docs/data/MODEL/history.jsonl")
    options = parser.parse_intermixed_args()
    if options.step == "count":
        lines = [json.dumps(count(group)) for group in repositories(options.folders)]
        COUNTS.write_text("".join(f"{line}\n" for line in lines))
    elif options.step == "pack":
        print(pack(options.folders[0], options.folders[1:]), "pairs")
    elif options.step == "judge":
        gpus = tuple(map(int, options.gpus.split(",")))
        judge(options.folders[0], gpus, options.seconds, options.jobs, options.out)
    else:
        rows = read_lines(DATA / "nvidia-h200" / "history.jsonl")
        PAGE.write_text(page(read_lines(COUNTS), rows))


if __name__ == "__main__":
    main()
