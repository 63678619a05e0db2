"""Measured times of naive slow sides beside what their counts at the bench size explain; no GPU is used.

    python benchmarks/explained_times.py --count 150 --out docs/data/emulator/explained-times.jsonl

Draws built-in pairs by seed, counts what each slow side does at the bench size (`kcurate.judge.counted_runs`),
and writes a line for each: the counts, the registers and median time of each committed verdict on a GPU. Prints the
pairs whose time is the most above the model of `kcurate.judge.explained`. `--only-print` reads the file again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import time
from pathlib import Path

from tqdm import tqdm

from kcurate import resources, store
from kcurate.backends.base import Counts
from kcurate.judge.counted_runs import CountedRuns

Row = dict[str, object]


def measured(folder: Path) -> dict[str, dict[str, float]]:
    """The slow side's median time and most registers, by device, from the verdicts beside a pair."""
    found = {}
    for path in sorted((folder / "verdicts").glob("nvidia-*.json")):
        verdict = json.loads(path.read_text())
        side = verdict.get("slow") or {}
        if verdict["outcome"] == "confirmed" and side.get("median_us"):
            registers = max((one["registers"] for one in side.get("resources") or ()), default=0)
            found[verdict["environment"]["device"]] = {"us": side["median_us"], "registers": registers}
    return found


def rows(folders: list[Path]) -> list[Row]:
    runs, made = CountedRuns(), []
    try:
        for folder in tqdm(folders, file=sys.stderr):
            candidate = store.read_candidate(folder)
            started = time.perf_counter()
            counts = runs.slow_at_bench(candidate) if candidate.slow.language == "cuda" else None
            made.append(
                {
                    "pair": candidate.id,
                    "counts": dataclasses.asdict(counts) if counts else None,
                    "measured": measured(folder),
                    "count_s": round(time.perf_counter() - started, 2),
                }
            )
            print(json.dumps(made[-1]), flush=True) if not sys.stdout.isatty() else None
    finally:
        runs.close()
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    folders = sorted(path.parent for path in resources.pairs_dir().glob("*/*/pair.json"))
    random.Random(args.seed).shuffle(folders)
    rows(folders[args.part : args.count : 2])


if __name__ == "__main__":
    main()
