"""Plain answers to KernelBench's level 1 against eager PyTorch: how many the judge passes, how they compare.

    python benchmarks/kernelbench.py CHECKOUT [--backend cuda] [--gpu 0] [--tasks 1,19,40] [--json FILE]

CHECKOUT is one of KernelBench, or USER/NAME of its dataset on the Hub. Every task is judged once, in order,
as a reward would be: fresh inputs, all sizes, then timed at the bench size (on a GPU). The answers are
untuned (`kernelbench_answers`): the ratios say what a first correct kernel earns, not what is possible. Also
printed: which modules become no task and why, and how long making the tasks took.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelbench_answers import answer, number

from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.kernelbench import tasks
from kcurate.reward.task import Task


def judged(judge: Judge, task: Task) -> dict[str, Any] | None:
    """What became of the plain answer to one task; None where there is no answer."""
    side = answer(task)
    if side is None:
        return None
    started = time.perf_counter()
    verdict = judge.judge(replace(task.template, fast=side))
    return {
        "task": task.id,
        "outcome": str(verdict.outcome),
        "side": verdict.side,
        "detail": verdict.detail,
        "speedup": verdict.speedup.ratio if verdict.speedup else None,
        "eager_us": verdict.slow.median_us if verdict.slow else None,
        "wall_s": round(time.perf_counter() - started, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout")
    parser.add_argument("--backend", default="cuda", choices=("cuda", "emulator"))
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--tasks", default="", help="numbers; none: all")
    parser.add_argument("--json", type=Path, help="write one line a task here")
    options = parser.parse_args()
    started = time.perf_counter()
    found = tasks.load(options.checkout)
    print(f"{len(found.tasks)} tasks in {time.perf_counter() - started:.1f} s, {len(found.reduced)} reduced")
    for name, why in found.left_out.items():
        print(f"left out: {name}: {why}")
    wanted = {int(one) for one in options.tasks.split(",") if one}
    lines = []
    config = JudgeConfig(options.backend, options.gpu, torch=True)
    with contextlib.closing(Judge(config)) as judge:
        print(judge.environment().device)
        for task in found.tasks:
            if wanted and number(task) not in wanted:
                continue
            line = judged(judge, task)
            if line is None:
                print(f"{task.id}: no plain answer")
                continue
            lines.append(line)
            ratio = f"{line['speedup']:.3f}x of {line['eager_us']:.1f} us" if line["speedup"] else ""
            print(
                f"{task.id}: {line['outcome']} {ratio} {line['detail'][:200]} ({line['wall_s']} s)",
                flush=True,
            )
    summary(lines)
    if options.json:
        options.json.write_text("".join(json.dumps(line) + "\n" for line in lines))


def summary(lines: list[dict[str, Any]]) -> None:
    """Counts and medians."""
    print(dict(Counter(line["outcome"] for line in lines)))
    ratios = sorted(line["speedup"] for line in lines if line["speedup"])
    if ratios:
        faster = sum(ratio > 1 for ratio in ratios)
        print(f"{faster} of {len(ratios)} faster than eager; median {statistics.median(ratios):.3f}x")
    if lines:
        print(f"a judgement takes {statistics.median(line['wall_s'] for line in lines):.2f} s (median)")


if __name__ == "__main__":
    main()
