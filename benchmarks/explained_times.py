"""Measured times of naive slow sides beside what counts at the bench size explain; no GPU is used.

    python benchmarks/explained_times.py --count 150 --out docs/data/emulator/explained-times.jsonl

Draws built-in pairs by seed, counts what each side does at the bench size (`kcurate.judge.counted_runs`), and
appends a line for each that the file does not have: the counts of both, and of each committed verdict on a
GPU their registers and median times. Then prints quantiles of measured over explained time, by itself and
beside the fast side (`kcurate.judge.explained`), and the pairs above the limits. Plans with a loop on a flag
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
from typing import Any

import numpy as np
from tqdm import tqdm

from kcurate.backends.base import Counts
from kcurate.core import resources, store
from kcurate.judge.counted_runs import CountedRuns
from kcurate.judge.explained import EXPLAINED, beside_fast_us, explained_us
from kcurate.records import WhileNonzero, steps


def measured(folder: Path) -> dict[str, dict[str, float]]:
    """The sides' median times in us and most registers, by device, from the verdicts beside a pair."""
    times = {}
    for path in sorted((folder / "verdicts").glob("nvidia-*.json")):
        verdict = json.loads(path.read_text())
        if verdict["outcome"] == "confirmed" and (verdict.get("slow") or {}).get("median_us"):
            times[verdict["environment"]["device"]] = {
                "us": verdict["slow"]["median_us"],
                "registers": _registers(verdict["slow"]),
                "fast_us": verdict["fast"]["median_us"],
                "fast_registers": _registers(verdict["fast"]),
            }
    return times


def _registers(side: dict[str, Any]) -> int:
    return max((kernel["registers"] or 0 for kernel in side.get("resources") or ()), default=0)


def count(folders: list[Path], out: Path) -> None:
    """Append a row for each pair."""
    runs = CountedRuns()
    try:
        with out.open("a") as file:
            for folder in tqdm(folders, file=sys.stderr):
                candidate = store.read_candidate(folder)
                fast_first = dataclasses.replace(candidate, slow=candidate.fast)
                counts = [
                    runs.slow_at_bench(one) if one.slow.language == "cuda" else None
                    for one in (candidate, fast_first)
                ]
                row = {
                    "pair": candidate.id,
                    "counts": dataclasses.asdict(counts[0]) if counts[0] else None,
                    "fast": dataclasses.asdict(counts[1]) if counts[1] else None,
                    "measured": measured(folder),
                }
                file.write(json.dumps(row) + "\n")
                file.flush()
    finally:
        runs.close()


def ratios(out: Path, *, beside: bool) -> Iterator[tuple[float, str, str, float]]:
    """Measured over explained time, pair, device and us, of the plans that the judge asks this of.

    `beside`: over the limit beside the fast side, where that was counted too.
    """
    for line in out.read_text().splitlines():
        row = json.loads(line)
        pair = store.read_candidate(resources.pairs_dir() / row["pair"])
        plans = (*pair.slow.plan, *(pair.fast.plan if beside else ()))
        counted = row["counts"] is not None and (not beside or row.get("fast") is not None)
        if not counted or any(isinstance(step, WhileNonzero) for step in steps(plans)):
            continue
        for device, time in row["measured"].items():
            slow = Counts(**row["counts"]), int(time["registers"])
            explained = explained_us(*slow)
            if beside:
                fast = Counts(**row["fast"]), int(time["fast_registers"])
                explained = beside_fast_us(slow, fast, time["fast_us"])
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
    for beside, limit in ((False, EXPLAINED), (True, 1.0)):
        rows = sorted(ratios(args.out, beside=beside))
        shares = (0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1)
        print(f"{'beside the fast side: ' if beside else ''}{len(rows)} times;", end=" ")
        print(*np.quantile([row[0] for row in rows], shares).round(4))
        for ratio, pair, device, us in rows[-6:]:
            print(f"{ratio:.2f} {pair} ({device}, {us:.0f} us){' REFUSED' if ratio > limit else ''}")


if __name__ == "__main__":
    main()
