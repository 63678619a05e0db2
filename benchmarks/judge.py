"""What a verdict costs: latency, throughput, rejects, where the time goes; beside torch's load_inline.

    python benchmarks/judge.py --out FILE.json [--no-rival] [--no-latency] [--no-throughput] [--no-rejects]

Needs a GPU; the rival also torch and a CUDA toolkit (`--torch-python`). About three minutes on one H200 with
16 cores, most of it the rival's. Every candidate is new code and gets a fresh process from the warm pool;
candidates of one problem share their reference's process. Our clock starts when a candidate is handed over
and stops at the verdict; throughput counts verdicts after the first ones of every referee.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kernels import families

from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.referees import batch
from kcurate.records import Candidate, Verdict

CONFIG = JudgeConfig("cuda")
LATENCY_VERDICTS = 24
RIVAL_TIMEOUT_S = 150.0


def row(verdict: Verdict) -> dict[str, Any]:
    return {
        "candidate": verdict.candidate,
        "outcome": str(verdict.outcome),
        "detail": verdict.detail,
        "wall_s": verdict.wall_s,
        # Without the seconds of the GPU's lock, which are part of these stages.
        "stages_s": {name: s for name, s in verdict.stages_s.items() if not name.startswith("gpu_")},
        "slow_us": verdict.slow.median_us if verdict.slow else None,
        "fast_us": verdict.fast.median_us if verdict.fast else None,
    }


def variants(count: int, start: int = 0) -> list[Candidate]:
    kinds = families()
    return [kinds[i % len(kinds)].variant(i) for i in range(start, start + count)]


def broken(count: int) -> list[Candidate]:
    """Candidates whose fast side does not compile."""
    found = []
    for one in variants(count, 50_000):
        code = one.fast.code.replace("if (", "if (undeclared && ", 1)
        found.append(replace(one, fast=replace(one.fast, code=code)))
    return found


def latency(_: argparse.Namespace) -> dict[str, Any]:
    """One verdict after another, by one judge with warm workers."""
    rows = []
    with contextlib.closing(Judge(replace(CONFIG, spares=6))) as judge:
        judge.calibrate()
        for number, one in enumerate(variants(LATENCY_VERDICTS + 3)):
            time.sleep(0.4)  # the pool refills: this measures single verdicts
            started = time.perf_counter()
            verdict = judge.judge(one)
            if number >= 3:  # one of each problem, so that its reference is there
                rows.append({**row(verdict), "latency_s": time.perf_counter() - started})
    walls = sorted(one["latency_s"] for one in rows)
    print(
        "latency",
        Counter(one["outcome"] for one in rows),
        f"median {statistics.median(walls):.3f} s",
        flush=True,
    )
    stages = {
        name: 1e3 * statistics.mean(one["stages_s"].get(name, 0.0) for one in rows)
        for name in rows[0]["stages_s"]
    }
    table(stages)
    return {
        "median_s": statistics.median(walls),
        "p90_s": walls[int(0.9 * len(walls))],
        "stages_ms": stages,
        "rows": rows,
    }


def table(stages_ms: dict[str, float]) -> None:
    total = sum(stages_ms.values())
    for name, ms in stages_ms.items():
        print(f"  {name:16s} {ms:8.1f} ms  {100 * ms / total:5.1f} %", flush=True)


def many(candidates: list[Candidate], jobs: int) -> dict[str, Any]:
    """Judge all, `jobs` at once; the steady rate leaves out each referee's first two."""
    started = time.perf_counter()
    arrivals, rows = [], []
    for _, verdict in batch.judge_many(list(enumerate(candidates)), CONFIG, gpus=(0,), jobs=jobs):
        arrivals.append(time.perf_counter() - started)
        rows.append(row(verdict))
    first = min(2 * jobs, len(arrivals) // 2)
    steady = (len(arrivals) - 1 - first) / (arrivals[-1] - arrivals[first])
    stages: dict[str, float] = {}
    for one in rows[first:]:
        for name, seconds in one["stages_s"].items():
            stages[name] = stages.get(name, 0.0) + 1e3 * seconds / (len(rows) - first)
    outcomes = Counter(one["outcome"] for one in rows)
    print(f"{jobs} referees: {steady:.2f} verdicts/s, first after {arrivals[0]:.1f} s", outcomes, flush=True)
    table(stages)
    return {
        "jobs": jobs,
        "per_s": steady,
        "first_s": arrivals[0],
        "wall_s": arrivals[-1],
        "outcomes": outcomes,
        "stages_ms": stages,
        "arrivals_s": arrivals,
        "rows": rows,
    }


def throughput(options: argparse.Namespace) -> dict[str, Any]:
    found = [many(variants(options.verdicts, 1000 * jobs), jobs) for jobs in options.jobs]
    best = max(found, key=lambda one: float(one["per_s"]))
    return {"best_per_s": best["per_s"], "best_jobs": best["jobs"], "runs": found}


def rejects(options: argparse.Namespace) -> dict[str, Any]:
    return many(broken(options.rejects), max(options.jobs))


def rival(options: argparse.Namespace) -> dict[str, Any]:
    """load_inline of the same kernels: one alone with allclose and events; then one a core at once."""
    cores = len(os.sched_getaffinity(0))
    kinds = families()
    found: dict[str, Any] = {"cores": cores}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = start_rival(options, folder, 90_000, [kinds[0].inline(90_000)], compile_only=False)
        found["alone"] = finish_rival(folder, 90_000, alone)
        started = time.perf_counter()
        jobs = {
            number: start_rival(
                options, folder, number, [kinds[number % 3].inline(number)], compile_only=True
            )
            for number in range(91_000, 91_000 + cores)
        }
        answers = [finish_rival(folder, number, job) for number, job in jobs.items()]
        found["wall_s"] = time.perf_counter() - started
    compiled = [answer["rows"][0]["compile_s"] for answer in answers if answer]
    found["at_once"] = answers
    if compiled:
        found["per_s"] = len(compiled) / max(compiled)
    print(
        f"load_inline: {len(compiled)} at once, the last after {max(compiled, default=0):.1f} s", flush=True
    )
    print("alone:", found["alone"], flush=True)
    return found


def start_rival(
    options: argparse.Namespace,
    folder: Path,
    number: int,
    kernels: list[dict[str, str]],
    *,
    compile_only: bool,
) -> subprocess.Popen[str]:
    (folder / f"{number}.json").write_text(json.dumps(kernels))
    script = str(Path(__file__).with_name("judge_rival.py"))
    command = [options.torch_python, script, str(folder / f"{number}.json"), str(folder / f"{number}.out")]
    return subprocess.Popen(
        [*command, *(["--compile-only"] if compile_only else [])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish_rival(folder: Path, number: int, job: subprocess.Popen[str]) -> dict[str, Any] | None:
    try:
        _, errors = job.communicate(timeout=RIVAL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        job.kill()
        job.communicate()
        return None
    if job.returncode:
        print("load_inline failed:", errors[-1500:], flush=True)
        return None
    answer: dict[str, Any] = json.loads((folder / f"{number}.out").read_text())
    return answer


def environment() -> dict[str, Any]:
    return {
        **asdict(batch.describe_environment(replace(CONFIG, spares=1))),
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.platform(),
        "python": sys.version,
    }


def compare(data: dict[str, Any]) -> None:
    """The ratios that the project promises."""
    theirs = data.get("rival") or {}
    alone = (theirs.get("alone") or {}).get("rows", [{}])[0]
    if "latency" in data and "wall_s" in alone:
        data["latency_ratio"] = alone["wall_s"] / data["latency"]["median_s"]
    if "throughput" in data and "per_s" in theirs:
        data["throughput_ratio"] = data["throughput"]["best_per_s"] / theirs["per_s"]
    for name in ("latency_ratio", "throughput_ratio"):
        print(name, data.get(name), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, nargs="+", default=[6, 10])
    parser.add_argument("--verdicts", type=int, default=72)
    parser.add_argument("--rejects", type=int, default=400)
    parser.add_argument("--torch-python", default=sys.executable)
    parts: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
        "latency": latency,
        "throughput": throughput,
        "rejects": rejects,
        "rival": rival,
    }
    for name in parts:
        parser.add_argument(f"--no-{name}", action="store_true")
    options = parser.parse_args()
    data: dict[str, Any] = {"environment": environment()}
    for name, part in parts.items():
        if getattr(options, f"no_{name}"):
            continue
        started = time.perf_counter()
        data[name] = part(options)
        print(f"{name} took {time.perf_counter() - started:.1f} s", flush=True)
        compare(data)
        options.out.write_text(json.dumps(data))


if __name__ == "__main__":
    main()
