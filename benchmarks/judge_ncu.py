"""Does the judge time what Nsight Compute times? Built-in sides of one launch, drawn by seed.

    python benchmarks/judge_ncu.py --out FILE.json [--sides 60] [--seed 1] [--pairs DIR]

Needs a GPU and `ncu`. The judge's time is that of the verdict beside the pair, `DIR/*/*/verdicts/*.json`,
which the same GPU must have given just before (`kcurate validate DIR --gpu 0 --again`). Nsight Compute times
the same kernel on the same inputs, at new places for each run, the cache flushed before. Kernels of
less than 5 us, for which the judge claims no speedup, are left out. `judge_aa.py` uses `readings`.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from common import copy

from kcurate.backends.base import Compiled
from kcurate.core import resources, store
from kcurate.judge import compile_side, trials
from kcurate.judge.timing.a_against_a import fma_pair
from kcurate.problem.bind_once import bind_once
from kcurate.problem.inputs import contents
from kcurate.problem.ops import LaunchOp
from kcurate.records import Candidate, Outcome, Verdict
from kcurate.records.pair import SIDES, SideName

REPEATS = 9
LEAST_US = 5.0
# What Nsight Compute is asked to time: a chain of so many rounds, a copy of so many MB, or a side
# ("side", FOLDER, "slow", SEED, ...), the seeds of its inputs in turn.
Kernel = tuple[str | float, ...]
UNITS = {"ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3}


def readings(kernels: Sequence[Kernel], timeout_s: float = 240.0) -> list[float]:
    """Nsight Compute's gpu__time_duration of each kernel in us: the median of runs with a settled clock.

    Empty if `ncu` is missing or failed, which is printed.
    """
    if shutil.which("ncu") is None:
        print("ncu is not installed", flush=True)
        return []
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv"]
    command += ["--profile-from-start", "off", "--metrics", "gpu__time_duration.sum"]
    command += [sys.executable, __file__, "--inside", json.dumps(kernels)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        print(f"ncu did not end within {timeout_s:.0f} s", flush=True)
        return []
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    found = [
        float(row["Metric Value"].replace(",", "")) * UNITS[row["Metric Unit"]]
        for row in csv.DictReader(lines)
    ]
    if len(found) != REPEATS * len(kernels):
        print(len(found), "readings of ncu:", done.stdout[-800:], done.stderr[-800:], flush=True)
        return []
    # The first of each meet a clock that has not settled.
    return [
        float(np.median(found[start + REPEATS // 3 : start + REPEATS]))
        for start in range(0, len(found), REPEATS)
    ]


def inside(kernels: Sequence[Kernel]) -> None:
    """What Nsight Compute runs."""
    from cuda.bindings import driver as cu

    from kcurate.backends.cuda import helpers
    from kcurate.backends.cuda.compiler import CudaCompiler
    from kcurate.backends.cuda.device import CudaDevice
    from kcurate.backends.cuda.driver import call
    from kcurate.backends.cuda.timer import GpuTimer
    from kcurate.judge.workers.inside.arena import Arena
    from kcurate.judge.workers.inside.input_sets import InputSet

    device = CudaDevice(0)
    compiler = CudaCompiler(device.arch)
    made_helpers = compiler.compile(helpers.SOURCE, helpers.ENTRIES)
    assert isinstance(made_helpers, Compiled)
    timer = GpuTimer(device, made_helpers)
    for kernel in kernels:
        one, side = chosen(kernel)
        assert one.problem is not None
        made = compile_side(one, side, compiler)
        assert isinstance(made, Compiled)
        sizes, record = one.problem.sizes.headline, getattr(one, side)
        arena, module = Arena(timer), device.load(made)
        bound = bind_once(one.problem, record, sizes)
        sets = [
            InputSet(timer, bound, *contents.recipes(one.problem, record, sizes, int(seed)), arena)
            for seed in kernel[3:] or (1,)
        ]
        for repeat in range(REPEATS):
            prepared = sets[repeat % len(sets)].at_new_addresses(module)
            arena.renew()
            prepared.reset(arena.salt)
            timer.flush()
            device.synchronize()
            call(cu.cuProfilerStart())
            prepared.run()
            device.synchronize()
            call(cu.cuProfilerStop())
        for inputs in sets:
            inputs.close()
        arena.close()
        device.shrink()


def chosen(kernel: Kernel) -> tuple[Candidate, SideName]:
    """The candidate and its side."""
    kind, value, *rest = kernel
    if kind == "chain":
        return fma_pair(int(value)), "fast"
    if kind == "copy":
        return copy(float(value)), "fast"
    return store.read_candidate(Path(str(value))), "slow" if rest[0] == "slow" else "fast"


def timed_seeds(verdict: Verdict) -> tuple[int, ...]:
    """The seeds of the inputs on which a pair with one bench size was timed: those drawn last."""
    return verdict.seeds[-trials.INPUT_SETS :]


def one_launch(pairs: Path) -> list[tuple[Path, SideName, Verdict, float]]:
    """Sides that launch one kernel once and do nothing else, confirmed, with the judge's times."""
    found: list[tuple[Path, SideName, Verdict, float]] = []
    for folder in store.find_candidates(pairs):
        one = store.read_candidate(folder)
        verdicts = [v for v in store.read_verdicts(folder) if v.outcome is Outcome.CONFIRMED]
        if not verdicts or one.problem is None:
            continue
        newest = verdicts[-1]
        for side in SIDES:
            program = bind_once(one.problem, getattr(one, side), one.problem.sizes.headline)
            report = getattr(newest, side)
            if (
                len(program.ops) == 1
                and isinstance(program.ops[0], LaunchOp)
                and report.median_us >= LEAST_US
            ):
                found.append((folder, side, newest, report.median_us))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sides", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=Path, default=resources.pairs_dir())
    parser.add_argument("--inside", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside is not None:
        inside([tuple(kernel) for kernel in options.inside])
        return
    there = one_launch(options.pairs)
    drawn = random.Random(options.seed).sample(there, min(options.sides, len(there)))
    asked = [("side", str(folder), side, *timed_seeds(verdict)) for folder, side, verdict, _ in drawn]
    times = readings(asked)
    rows: list[dict[str, Any]] = []
    for (_, side, verdict, judge_us), ncu_us in zip(drawn, times, strict=bool(times)):
        rows.append(
            {
                "side": f"{verdict.candidate}/{side}",
                "judge_us": judge_us,
                "ncu_us": ncu_us,
                "off": judge_us / ncu_us - 1,
                "device_uuid": verdict.environment.device_uuid,
            }
        )
    rows.sort(key=lambda row: abs(row["off"]))
    for row in rows:
        print(f"{row['side']:52s} {row['judge_us']:10.2f} {row['ncu_us']:10.2f} {row['off']:+7.2%}")
    off = [abs(row["off"]) for row in rows]
    if off:
        print(
            f"{len(off)} of {len(there)} sides: median {np.median(off):.2%}, 90% {np.quantile(off, 0.9):.2%}"
        )
    if options.out is not None:
        environment = asdict(drawn[0][2].environment) if drawn else None
        options.out.write_text(json.dumps({"environment": environment, "of": len(there), "rows": rows}))


if __name__ == "__main__":
    main()
