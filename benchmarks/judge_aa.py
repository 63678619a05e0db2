"""How far the judge's times can be believed: A against A, planted differences, repeats, Nsight Compute.

    python benchmarks/judge_aa.py --out FILE.json [--pairs 10] [--repeats 10]

Needs a GPU (about five minutes of one H200). A against A: every kernel against its own copy, `pairs` fresh
pairs of processes x `repeats` judgements each. Planted: the slow side does 1.03 or 1.05 times the work.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from common import chain, copy, timed_workers

from kcurate.judge import statistics, timing
from kcurate.judge.judge import Judge, JudgeConfig
from kcurate.judge.timed import Stopwatch
from kcurate.records import Candidate

DURATIONS_US = (3.0, 5.0, 8.0, 15.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
COPIES_MB = (2.0, 20.0, 200.0)
PLANTED_PAIRS, PLANTED_REPEATS = 4, 10
SHORT_US = 20.0


def judgements(judge: Judge, one: Candidate, pairs: int, repeats: int, seed: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for pair in range(pairs):
        with timed_workers(judge, one, seed + pair) as (_, watch):
            rows += [one_judgement(watch, 1000 * (seed + pair) + repeat, pair) for repeat in range(repeats)]
    return rows


def one_judgement(watch: Stopwatch, seed: int, pair: int) -> dict[str, Any]:
    samples = watch.measure(seed)
    estimate = samples.estimate
    assert estimate is not None
    return {
        "pair": pair,
        "method": samples.method,
        "fast_us": samples.median_us("fast"),
        "ratio": estimate.ratio,
        "low": estimate.low,
        "high": estimate.high,
        "blocks": estimate.blocks,
        "wall_s": samples.wall_s,
        "outcome": statistics.decide(estimate),
    }


def summarise(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = np.array([row["ratio"] for row in rows])
    by_pair = [np.median([r["ratio"] for r in rows if r["pair"] == p]) for p in {r["pair"] for r in rows}]
    centre = np.median(by_pair)
    line = {
        "name": name,
        "judgements": len(rows),
        "fast_us": round(float(np.median([row["fast_us"] for row in rows])), 3),
        "method": rows[0]["method"],
        "outcomes": dict(Counter(row["outcome"] for row in rows)),
        "ratio": round(float(np.median(ratios)), 5),
        "stray_p99": round(float(np.quantile(np.abs(ratios - 1), 0.99)), 5),
        "spread_p95": round(float(np.quantile(np.abs(ratios / centre - 1), 0.95)), 5),
        "between_processes_p95": round(float(np.quantile(np.abs(np.array(by_pair) / centre - 1), 0.95)), 5),
        "wall_ms": round(1e3 * float(np.median([row["wall_s"] for row in rows])), 1),
    }
    print(line, flush=True)
    return line


def ncu_medians(names: list[tuple[str, float]]) -> dict[str, float]:
    """Nsight Compute's gpu__time_duration of the same kernels, the cache flushed by us before each."""
    if shutil.which("ncu") is None:
        return {}
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv"]
    command += ["--metrics", "gpu__time_duration.sum", "--kernel-name", "work"]
    script = str(Path(__file__).with_name("judge_ncu.py"))
    done = subprocess.run(
        [*command, sys.executable, script, json.dumps(names)], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    scale = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}
    found = [
        float(row["Metric Value"].replace(",", "")) * scale[row["Metric Unit"]]
        for row in csv.DictReader(lines)
    ]
    each = len(found) // len(names) if names else 0
    if not each:
        print("ncu gave nothing:", done.stdout[-800:], done.stderr[-800:])
        return {}
    return {
        f"{kind}-{value:g}": float(np.median(found[i * each + 2 : (i + 1) * each]))
        for i, (kind, value) in enumerate(names)
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--methods", action="store_true", help="also the short ones by events alone")
    options = parser.parse_args()
    started = time.perf_counter()
    judge = Judge(JudgeConfig("cuda", spares=4))
    raw: dict[str, list[dict[str, Any]]] = {}
    table = []
    for us in DURATIONS_US:
        raw[f"aa-chain-{us:g}"] = judgements(judge, chain(us), options.pairs, options.repeats, 1)
    for megabytes in COPIES_MB:
        raw[f"aa-copy-{megabytes:g}"] = judgements(judge, copy(megabytes), options.pairs, options.repeats, 2)
    for us in DURATIONS_US:
        planted = 1.05 if us < SHORT_US else 1.03
        rows = judgements(judge, chain(us, planted), PLANTED_PAIRS, PLANTED_REPEATS, 3)
        raw[f"planted-{planted:g}-chain-{us:g}"] = rows
    for us in (30.0, 300.0):
        raw[f"repeat-1.5-chain-{us:g}"] = judgements(judge, chain(us, 1.5), 20, 1, 4)
    if options.methods:
        timing.CHAIN_BELOW_US = 0.0
        for us in (3.0, 5.0, 8.0):
            raw[f"events-aa-chain-{us:g}"] = judgements(judge, chain(us), 4, 10, 5)
            raw[f"events-planted-1.05-chain-{us:g}"] = judgements(judge, chain(us, 1.05), 4, 10, 5)
    table = [summarise(name, rows) for name, rows in raw.items()]
    environment = judge.environment()
    judge.close()
    names = [("chain", us) for us in DURATIONS_US] + [("copy", mb) for mb in COPIES_MB]
    ncu = ncu_medians(names)
    for row in table:
        kind = row["name"].removeprefix("aa-")
        if row["name"].startswith("aa-") and kind in ncu:
            row["ncu_us"] = ncu[kind]
            row["over_ncu"] = round(row["fast_us"] / ncu[kind] - 1, 4)
            print(kind, row["fast_us"], ncu[kind], row["over_ncu"])
    aa = [row for name, rows in raw.items() if name.startswith("aa-") for row in rows]
    print("A against A:", len(aa), Counter(row["outcome"] for row in aa))
    print(f"took {time.perf_counter() - started:.0f} s")
    data = {"device": environment.device, "driver": environment.driver, "table": table, "raw": raw}
    options.out.write_text(json.dumps(data))


if __name__ == "__main__":
    main()
