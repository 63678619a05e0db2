"""Measured times of naive slow sides beside what their counts at the bench size explain; no GPU is used.

    python benchmarks/explained_times.py --count 150 --out docs/data/emulator/explained-times.jsonl

Draws built-in pairs by seed, counts what each slow side does at the bench size
(`kcurate.judge.counted_runs`), and appends a line for each that the file does not have: the counts, and of
each committed verdict on a GPU the slow side's registers and median time. Then prints quantiles of measured
over explained time (`kcurate.judge.explained`), and the pairs above the limit. Plans with a loop on a flag
are left out, as in the judge.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from kcurate.backends.base import Counts
from kcurate.core import resources, store
from kcurate.judge.counted_runs import CountedRuns
from kcurate.judge.explained import EXPLAINED, explained_us
from kcurate.records import WhileNonzero, steps


def measured(folder: Path) -> dict[str, dict[str, float]]:
    """The slow side's median time in us and most registers, by device, from the verdicts beside a pair."""
    times = {}
    for path in sorted((folder / "verdicts").glob("nvidia-*.json")):
        verdict = json.loads(path.read_text())
        side = verdict.get("slow") or {}
        if verdict["outcome"] == "confirmed" and side.get("median_us"):
            registers = max((kernel["registers"] for kernel in side.get("resources") or ()), default=0)
            times[verdict["environment"]["device"]] = {"us": side["median_us"], "registers": registers}
    return times


def count(folders: list[Path], out: Path) -> None:
    """Append a row for each pair."""
    runs = CountedRuns()
    try:
        with out.open("a") as file:
            for folder in tqdm(folders, file=sys.stderr):
                candidate = store.read_candidate(folder)
                counts = runs.slow_at_bench(candidate) if candidate.slow.language == "cuda" else None
                row = {
                    "pair": candidate.id,
                    "counts": dataclasses.asdict(counts) if counts else None,
                    "measured": measured(folder),
                }
                file.write(json.dumps(row) + "\n")
                file.flush()
    finally:
        runs.close()


def ratios(out: Path) -> Iterator[tuple[float, str, str, float]]:
    """Measured over explained time, pair, device and us, of the plans that the judge asks this of."""
    for line in out.read_text().splitlines():
        row = json.loads(line)
        plan = store.read_candidate(resources.pairs_dir() / row["pair"]).slow.plan
        if row["counts"] is None or any(isinstance(step, WhileNonzero) for step in steps(plan)):
            continue
        for device, time in row["measured"].items():
            explained = explained_us(Counts(**row["counts"]), int(time["registers"]))
            yield time["us"] / explained, row["pair"], device, time["us"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    known = {json.loads(line)["pair"] for line in args.out.read_text().splitlines()}
    folders = sorted(path.parent for path in resources.pairs_dir().glob("*/*/pair.json"))
    random.Random(args.seed).shuffle(folders)
    root = resources.pairs_dir()
    count([one for one in folders[: args.count] if str(one.relative_to(root)) not in known], args.out)
    rows = sorted(ratios(args.out))
    shares = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1)
    print(f"{len(rows)} times;", *np.quantile([row[0] for row in rows], shares).round(4))
    for ratio, pair, device, us in rows[-6:]:
        print(f"{ratio:.2f} {pair} ({device}, {us:.0f} us){' REFUSED' if ratio > EXPLAINED else ''}")


if __name__ == "__main__":
    main()
