"""What training costs: waiting for rewards, rewards a second, two processes.

    python benchmarks/train.py --model MODEL [--out FILE.json] [--adapter DIR]
        [--only grpo,rewards,two,fsdp] [--set key=value ...]

MODEL is a folder or a name on the Hub. `grpo` runs a few steps of 64 answers and gives the share of them
that is spent waiting for rewards (give `--adapter` for answers that compile). `rewards` scores 64
different kernels that are right, beside torch's load_inline where there is a GPU with a toolkit. `two`
runs SFT in one process and in two, and compares the losses; `fsdp` does so with the model sharded over
two GPUs. The rest needs no GPU but says little without one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kernels import families

from kcurate import backends
from kcurate.records import Candidate
from kcurate.reward import pair_tasks, schemes
from kcurate.reward.pool import PoolConfig, RewardPool
from kcurate.train.run_folder import MetricsLog

ROOT = Path(__file__).resolve().parent.parent
STEPS, FIRST = 14, 3
ANSWERS = 64
RIVALS = 3
SFT = (f"sft.max_steps={STEPS}", "sft.save_steps=1000", "sft.warmup_steps=0", "tasks.held_out=0.0")
LAUNCH = ROOT / "kcurate/train/accelerate"


def kcurate(stage: str, model: str, out: Path, sets: list[str], *more: str, launch: str = "") -> float:
    """Run `kcurate train`, in two processes if `launch` names how; seconds in all."""
    words = ["train", stage, "--model", model, "--out", str(out), "--samples", "0", *more]
    words += [word for one in sets for word in ("--set", one)]
    start = [sys.executable, "-m", "kcurate"]
    if launch:
        start = [
            sys.executable,
            "-m",
            "accelerate.commands.launch",
            "--config_file",
            str(LAUNCH / f"{launch}.yaml"),
        ]
        precision = "bf16" if backends.gpu_count() else "no"
        start += ["--mixed_precision", precision, "--num_processes", "2", "-m", "kcurate"]
    begun = time.perf_counter()
    subprocess.run([*start, *words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def rate(lines: list[dict[str, Any]]) -> float:
    """Tokens a second between the third step and the last."""
    first, last = lines[FIRST - 1], lines[-1]
    return (last["num_tokens"] - first["num_tokens"]) / (last["wall_s"] - first["wall_s"])


def grpo(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The share of a step of 64 answers spent waiting for rewards."""
    out = folder / "grpo"
    more = ("--adapter", str(given.adapter)) if given.adapter else ()
    more += ("--judge-gpus", given.judge_gpus) if given.judge_gpus else ()
    sets = ["grpo.prompts=8", "grpo.generations=8", "grpo.max_steps=3", "tasks.held_out=0.0", *given.sets]
    kcurate("grpo", given.model, out, sets, *more)
    lines = [line for line in MetricsLog(out / "metrics.jsonl").lines("grpo") if line.get("answers")]
    steps = [
        {
            "step_s": line["step_time"],
            "waited_s": line["waited_s"],
            "share": line["waited_s"] / line["step_time"],
            "outcomes": line["outcomes"],
            "mean_tokens": line["completions/mean_length"],
        }
        for line in lines
    ]
    later = steps[1:] or steps  # the first waits for the judges to start
    share = sum(one["waited_s"] for one in later) / sum(one["step_s"] for one in later)
    return {"answers": lines[0]["answers"], "steps": steps, "share_without_the_first": share}


def different(number: int) -> Candidate:
    """A candidate whose fast side is right and unlike the others, whatever its names are made to be."""
    kinds = families()
    one = kinds[number % len(kinds)].variant(number)
    code = one.fast.code.replace("int n) {", f"int n) {{ if (n == -{number + 7}) return;", 1)
    return replace(one, fast=replace(one.fast, code=code))


def scored(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Rewards a second for answers that all run, and those of load_inline."""
    count = given.answers
    pool_config = PoolConfig(backend=backends.resolve("auto"))
    with contextlib.closing(RewardPool(schemes.make("kernelcompare"), pool_config)) as pool:
        batches = []
        for start in (10_000, 20_000):  # the first starts the judges and makes the references
            tasks = [pair_tasks.task_of(different(start + i)) for i in range(count)]
            begun = time.perf_counter()
            judged = asyncio.run(pool.score(tasks, [str(task.answer) for task in tasks]))
            taken = time.perf_counter() - begun
            found: dict[str, int] = {}
            for one in judged:
                found[one.outcome] = found.get(one.outcome, 0) + 1
            batches.append({"taken_s": taken, "a_second": count / taken, "outcomes": found})
    result: dict[str, Any] = {"answers": count, "backend": pool_config.backend, "batches": batches}
    result["load_inline"] = rival(given, folder) if backends.gpu_count() else "not run: no GPU here"
    return result


def rival(given: argparse.Namespace, folder: Path) -> Any:
    """Seconds a kernel with torch's load_inline, built and checked one after another."""
    kinds = families()
    wanted, out = folder / "kernels.json", folder / "rival.json"
    wanted.write_text(json.dumps([kinds[i % len(kinds)].inline(40_000 + i) for i in range(given.rivals)]))
    script = [sys.executable, str(ROOT / "benchmarks/judge_rival.py"), str(wanted), str(out)]
    try:
        subprocess.run(script, check=True, timeout=240, stdout=subprocess.DEVNULL)
    except (subprocess.SubprocessError, OSError) as error:
        return f"not run: {error}"
    walls = [row["wall_s"] for row in json.loads(out.read_text())["rows"]]
    return {"seconds_each": walls, "a_second": 1 / statistics.median(walls)}


def two(given: argparse.Namespace, folder: Path, how: str = "ddp") -> dict[str, Any]:
    """The losses of one process and of two, with the same rows a step."""
    sets = [*SFT, "lora.dropout=0.0", *given.sets]
    if backends.gpu_count() < 2 and (how == "fsdp" or backends.gpu_count()):
        return {"not_run": f"GPUs here: {backends.gpu_count()}"}
    losses = {}
    for count in (1, 2):
        out = folder / f"{how}-{count}"
        seconds = kcurate("sft", given.model, out, sets, launch="" if count == 1 else how)
        lines = list(MetricsLog(out / "metrics.jsonl").lines("sft"))
        losses[count] = [line["loss"] for line in lines]
        losses[f"{count}_tokens_a_s"] = rate(lines)
        losses[f"{count}_wall_s"] = seconds
    apart = [abs(a - b) / a for a, b in zip(losses[1], losses[2], strict=True)]
    return {**{str(key): value for key, value in losses.items()}, "largest_relative_difference": max(apart)}


def fsdp(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """`two` with the model sharded."""
    return two(given, folder, "fsdp")


def main() -> None:
    """Run the parts asked for and print them as JSON, then as a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--adapter", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="grpo,rewards")
    parser.add_argument("--answers", type=int, default=ANSWERS)
    parser.add_argument("--judge-gpus", help="for grpo: judges on these GPUs, not on the one that trains")
    parser.add_argument("--rivals", type=int, default=RIVALS, help="kernels that load_inline builds")
    parser.add_argument("--set", dest="sets", action="append", default=[])
    given = parser.parse_args()
    given.model = str(Path(given.model).resolve()) if Path(given.model).exists() else given.model
    parts = {"grpo": grpo, "rewards": scored, "two": two, "fsdp": fsdp}
    found: dict[str, Any] = {"model": given.model, "cpus": os.cpu_count(), "machine": platform.machine()}
    with tempfile.TemporaryDirectory() as name:
        for part in given.only.split(","):
            found[part] = parts[part](given, Path(name))
            print(json.dumps({part: found[part]}), flush=True)
            if given.out:
                given.out.write_text(json.dumps(found, indent=2) + "\n")
    table(found)


def table(found: dict[str, Any]) -> None:
    """The aims and what was measured."""
    shown: list[tuple[str, str, str]] = []
    if "grpo" in found:
        share = found["grpo"]["share_without_the_first"]
        shown.append(("GRPO: share of a step that waits for rewards", f"{share:.3f}", "0.10 at most"))
    if "rewards" in found:
        other = found["rewards"]["load_inline"]
        rate_ = found["rewards"]["batches"][-1]["a_second"]
        shown.append(("rewards a second, all answers right", f"{rate_:.2f}", ""))
        theirs = f"{other['a_second']:.3f}" if isinstance(other, dict) else other
        shown.append(("load_inline: rewards a second", theirs, ""))
    for part in ("two", "fsdp"):
        if "largest_relative_difference" in found.get(part, {}):
            apart = found[part]["largest_relative_difference"]
            shown.append((f"{part}: largest relative difference of losses", f"{apart:.2g}", "noise"))
    for what, value, aim in shown:
        print(f"{what:56} {value:>10}   {aim}")


if __name__ == "__main__":
    main()
