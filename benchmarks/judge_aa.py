"""How far the judge's times can be believed: A against A, planted differences, repeats, Nsight Compute.

    python benchmarks/judge_aa.py --out FILE.json [--budget-s 330] [--no-ncu] [--triton]

Needs a GPU. A against A: every kernel against its own copy, in fresh pairs of processes, several judgements
each. Planted: the slow side takes 1.03 times as long (1.05 under 20 us); how many rounds of its loop that is,
is fitted first. Repeats: a 1.5 times longer side in many fresh pairs of processes. When the budget is spent,
what is left is left out, and the file says how many of what there are. Writes all rows. `--triton`: chains
alone, with both sides in Triton.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import copy
from judge_ncu import readings

from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.timing import statistics
from kcurate.judge.timing.a_against_a import THREADS, fma_pair
from kcurate.judge.timing.decision import PairTimer
from kcurate.records import Candidate, Launch, Side

Chain = Callable[..., Candidate]

DURATIONS_US = (6.0, 8.0, 10.0, 15.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
COPIES_MB = (2.0, 20.0, 200.0)
SHORT_US = 20.0
FIT_ROUNDS = (2_000, 20_000)


@dataclass(frozen=True)
class Task:
    """One kernel: `pairs` fresh pairs of processes, `repeats` judgements in each."""

    name: str
    candidate: Candidate
    pairs: int
    repeats: int
    first_pair: int = 0


@dataclass(frozen=True)
class Fit:
    """A chain takes `fixed_us` and its rounds."""

    fixed_us: float
    rounds_per_us: float

    def rounds(self, duration_us: float) -> int:
        """How many rounds take this long."""
        return max(8, round((duration_us - self.fixed_us) * self.rounds_per_us))

    def extra(self, duration_us: float, planted: float) -> int:
        """How many more rounds take `planted` times as long."""
        longer_us = max(duration_us, self.fixed_us + 8 / self.rounds_per_us) * (planted - 1.0)
        return max(1, round(longer_us * self.rounds_per_us))


def planted(us: float) -> float:
    """How many times as long the slow side is made to take."""
    return 1.05 if us < SHORT_US else 1.03


TRITON = """
import triton
import triton.language as tl

@triton.jit
def work(x, y, a, b, rounds, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    for _ in range(rounds):
        v = v * a + b
    tl.store(y + at, v)
"""


def in_triton(rounds: int, extra: int = 0) -> Candidate:
    """The chain with both sides in Triton, a thread for each element as in CUDA."""
    pair = fma_pair(rounds, extra)
    sides = []
    for side in (pair.slow, pair.fast):
        (step,) = side.plan
        assert isinstance(step, Launch)
        launch = Launch("work", step.grid, (), step.args, constexprs={"BLOCK": THREADS}, num_warps=8)
        sides.append(Side(TRITON, (launch,), language="triton"))
    return replace(pair, id=f"{pair.id}-triton", slow=sides[0], fast=sides[1])


def fit_chain(judge: Judge, chain: Chain) -> Fit:
    times = []
    for rounds in FIT_ROUNDS:
        with judge.pair_timer(chain(rounds), 7) as timer:
            times.append(timer.measure(7).median_us("fast"))
    per_round = (times[1] - times[0]) / (FIT_ROUNDS[1] - FIT_ROUNDS[0])
    return Fit(times[0] - FIT_ROUNDS[0] * per_round, 1.0 / per_round)


def tasks(fit: Fit, scale: float, chain: Chain) -> list[Task]:
    """Everything, in an order in which a prefix says something of each part."""

    def many(count: int) -> int:
        return max(1, round(count * scale))

    kernels: list[tuple[str, Candidate, int]] = []
    for us in DURATIONS_US:
        repeats = 8 if us >= 3000 else 12 if us >= 1000 else 16
        kernels.append((f"chain-{us:g}", chain(fit.rounds(us)), repeats))
    if chain is fma_pair:
        kernels += [(f"copy-{mb:g}", copy(mb), 16) for mb in COPIES_MB]
    found = [Task(f"aa-{name}", one, 3, many(repeats)) for name, one, repeats in kernels]
    for us in DURATIONS_US:
        one = chain(fit.rounds(us), fit.extra(us, planted(us)))
        found.append(Task(f"planted-{planted(us):g}-chain-{us:g}", one, 3, many(4 if us >= 3000 else 10)))
    for us in (30.0, 300.0):
        one = chain(fit.rounds(us), fit.extra(us, 1.5))
        found.append(Task(f"repeat-1.5-chain-{us:g}", one, many(16), 1))
    return found + [Task(f"aa-{name}", one, 3, many(repeats), 3) for name, one, repeats in kernels]


def judgements(judge: Judge, task: Task, until_s: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for pair in range(task.first_pair, task.first_pair + task.pairs):
        with judge.pair_timer(task.candidate, pair) as timer:
            for repeat in range(task.repeats):
                if time.perf_counter() > until_s:
                    return rows
                rows.append(one_judgement(timer, 1000 * pair + repeat, pair))
    return rows


def one_judgement(timer: PairTimer, seed: int, pair: int) -> dict[str, Any]:
    samples = timer.measure(seed)
    estimate = samples.estimate
    if estimate is None:
        return {
            "pair": pair,
            "outcome": "nothing_claimed",
            "wall_s": samples.wall_s,
        }
    return {
        "pair": pair,
        "slow_us": samples.median_us("slow"),
        "fast_us": samples.median_us("fast"),
        "ratio": estimate.ratio,
        "low": estimate.low,
        "high": estimate.high,
        "margin": estimate.margin,
        "blocks": estimate.blocks,
        "wall_s": samples.wall_s,
        "outcome": statistics.decide(estimate),
    }


def summarise(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    timed = [row for row in rows if "ratio" in row]
    outcomes = dict(Counter(row["outcome"] for row in rows))
    if not timed:
        return {"name": name, "judgements": len(rows), "outcomes": outcomes}
    ratios = np.array([row["ratio"] for row in timed])
    by_pair = [np.median([r["ratio"] for r in timed if r["pair"] == p]) for p in {r["pair"] for r in timed}]
    centre = np.median(by_pair)
    line = {
        "name": name,
        "judgements": len(rows),
        "processes": 2 * len(by_pair),
        "fast_us": round(float(np.median([row["fast_us"] for row in timed])), 3),
        "outcomes": outcomes,
        "ratio": round(float(np.median(ratios)), 5),
        "stray_p99": round(float(np.quantile(np.abs(ratios - 1), 0.99)), 5),
        "spread_p95": round(float(np.quantile(np.abs(ratios / centre - 1), 0.95)), 5),
        "between_processes_p95": round(float(np.quantile(np.abs(np.array(by_pair) / centre - 1), 0.95)), 5),
        "blocks": float(np.median([row["blocks"] for row in timed])),
        "wall_ms": round(1e3 * float(np.median([row["wall_s"] for row in timed])), 1),
    }
    print(line, flush=True)
    return line


def ncu_medians(kernels: list[tuple[str, float]]) -> dict[str, float]:
    """Nsight Compute's times of the same kernels, by name."""
    names = [f"{kind}-{value:g}" for kind, value in kernels]
    return dict(zip(names, readings(kernels), strict=False))


def compare_with_ncu(table: list[dict[str, Any]], ncu: dict[str, float], fit: Fit) -> None:
    names = {f"aa-chain-{us:g}": f"chain-{fit.rounds(us):g}" for us in DURATIONS_US}
    names |= {f"aa-copy-{mb:g}": f"copy-{mb:g}" for mb in COPIES_MB}
    for row in table:
        reading = ncu.get(names.get(row["name"], ""))
        if reading is not None and "fast_us" in row:
            row["ncu_us"] = reading
            row["over_ncu"] = round(row["fast_us"] / reading - 1, 4)
            print(row["name"], row["fast_us"], reading, row["over_ncu"], flush=True)
    for us in DURATIONS_US:
        longer = ncu.get(f"chain-{fit.rounds(us) + fit.extra(us, planted(us)):g}")
        for row in table:
            if longer is not None and row["name"] == f"planted-{planted(us):g}-chain-{us:g}":
                row["ncu_ratio"] = round(longer / ncu[f"chain-{fit.rounds(us):g}"], 4)
                print(row["name"], row.get("ratio"), row["ncu_ratio"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget-s", type=float, default=330.0)
    parser.add_argument("--scale", type=float, default=1.0, help="times as many judgements in each process")
    parser.add_argument("--no-ncu", action="store_true")
    parser.add_argument("--triton", action="store_true", help="chains in Triton alone, without ncu")
    parser.add_argument("--only", default="", metavar="REGEX", help="only tasks of such names")
    options = parser.parse_args()
    started = time.perf_counter()
    judge = Judge(JudgeConfig("cuda", spares=6))
    clock = judge.calibrate()
    print(clock, f"self-test took {time.perf_counter() - started:.1f} s", flush=True)
    chain: Chain = in_triton if options.triton else fma_pair
    fit = fit_chain(judge, chain)
    print(fit, flush=True)
    raw: dict[str, list[dict[str, Any]]] = {}
    until_s = started + options.budget_s
    for task in tasks(fit, options.scale, chain):
        if time.perf_counter() < until_s and re.search(options.only, task.name):
            raw.setdefault(task.name, []).extend(judgements(judge, task, until_s))
            print(f"{time.perf_counter() - started:6.1f} s {task.name}", flush=True)
    table = [summarise(name, rows) for name, rows in raw.items() if rows]
    environment = judge.environment()
    judge.close()
    if not (options.no_ncu or options.triton):
        kernels = [("chain", float(fit.rounds(us))) for us in DURATIONS_US]
        kernels += [("copy", mb) for mb in COPIES_MB]
        kernels += [("chain", float(fit.rounds(us) + fit.extra(us, planted(us)))) for us in DURATIONS_US]
        compare_with_ncu(table, ncu_medians(kernels), fit)
    aa = [row for name, rows in raw.items() if name.startswith("aa-") for row in rows]
    print("A against A:", len(aa), dict(Counter(row["outcome"] for row in aa)))
    wall_s = time.perf_counter() - started
    print(f"took {wall_s:.0f} s")
    data = {
        "environment": asdict(environment),
        "calibration": asdict(clock),
        "fit": asdict(fit),
        "wall_s": wall_s,
        "table": table,
        "raw": raw,
    }
    options.out.write_text(json.dumps(data))


if __name__ == "__main__":
    main()
