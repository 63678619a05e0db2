"""The KernelCompare paper's Table 1 with a model that fits: base, SFT and GRPO on KernelBench's Level 1.

    python benchmarks/table1.py prepare --model BASE --checkout KERNELBENCH --tasks FILE     # no GPU
    python benchmarks/table1.py run --model BASE --tasks FILE --out DIR [--work DIR] [--budget-s 560]
    python benchmarks/table1.py report [DIR]          # the table of docs/results/kernelcompare.md

The paper's recipe and split (80/20, seed 42): SFT on pairs, then GRPO under the paper's reward on the 80, and
scores on the 20. `SETTINGS` are the changes for SmolLM2-135M-Instruct. `run` goes on with the first row that
DIR lacks, as `experiment.py` does. Only scores are kept: completions can repeat KernelBench's modules.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from experiment import GPU, Arm, Protocol, options_of, run, settings_of

from kcurate.evaluation.intervals import Estimate
from kcurate.train.run_tasks import Tasks

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs/data/nvidia-h200/table1"
PAGE = ROOT / "docs/results/kernelcompare.md"
PROMPT, ANSWER, ROW = 2048, 1024, 3072
SETTINGS = (
    "tasks.brief=true", "sft.learning_rate=8e-4", "sft.batch=8", "sft.micro_batch=8", "sft.max_steps=120",
    f"sft.max_tokens={ROW}", "sft.gradient_checkpointing=false",
    "grpo.learning_rate=1e-4", "grpo.generate_every=4", "grpo.max_steps=4", "grpo.micro_batch=32",
    f"grpo.max_completion_tokens={ANSWER}", f"grpo.max_prompt_tokens={PROMPT}", "grpo.temperature=0.7",
    "grpo.gradient_checkpointing=false",
    "measure.batch=512", "measure.temperature=0.7", f"measure.max_completion_tokens={ANSWER}",
)  # fmt: skip
REWARD = "kernelcompare"
PROTOCOL = Protocol(
    REWARD,
    SETTINGS,
    (Arm("base", reward=REWARD), Arm("sft", "sft", reward=REWARD), Arm("grpo", "grpo", reward=REWARD)),
)
NAMES = {"base": "base", "sft": "SFT", "grpo": "SFT + GRPO"}
COLUMNS = {
    "compiles": "compiles",
    "correct": "correct, no copy",
    "copied": "copied",
    "fast": "faster",
    "reward": "mean reward",
}


def prepare(options: argparse.Namespace) -> Tasks:
    """The tasks; of SFT's rows those whose answer is no longer than what is sampled afterwards."""
    from kcurate.local_models import weights
    from kcurate.local_models.form import Form, fitting
    from kcurate.train import run_tasks

    settings = settings_of(PROTOCOL, str(options.model), f"tasks.source=kernelbench:{options.checkout}")
    found = run_tasks.load_tasks(settings, print, gpu=GPU)
    form = Form(weights.load_tokenizer(settings.model), settings.model)
    tasks = Tasks(
        tuple(fitting([one for one in found.sft if one.answer is not None], form, ROW - ANSWER, ANSWER)),
        tuple(fitting(found.grpo, form, PROMPT, ANSWER)),
        tuple(fitting(found.held_out, form, PROMPT, ANSWER)),
        found.left_out,
    )
    options.tasks.write_bytes(pickle.dumps(tasks))
    return tasks


def report(folder: Path) -> None:
    """Fill the page's table from the rows."""
    from marked import fill

    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    first, packages = rows[0], rows[0]["packages"]
    versions = ", ".join(f"{name} {packages.get(name)}" for name in ("torch", "transformers", "trl"))
    tasks = rows[-1]["summary"]["tasks"]
    missing = ", ".join(NAMES[arm.name] for arm in PROTOCOL.arms if arm.name not in {r["arm"] for r in rows})
    lines = [
        f"{versions}. SFT on {tasks['taught']} pairs, GRPO on {tasks['asked']} tasks, scores on "
        f"{first['scores']['tasks']}.{f' Not run yet: {missing}.' if missing else ''}\n",
        f"| model | GPU | seconds | completions | {' | '.join(COLUMNS.values())} |",
        f"|---|---|---:|---:|{'---:|' * len(COLUMNS)}",
    ]
    for row in rows:
        found = row["scores"]
        where = [", ".join(row["gpus"]) or "CPU", f"{row['seconds']:.0f}"]
        cells = [*where, str(sum(found["outcomes"].values())), *(_shown(found, name) for name in COLUMNS)]
        lines.append(f"| {NAMES[row['arm']]} | {' | '.join(cells)} |")
    fill(PAGE, Path(__file__).name, "\n".join(lines))


def _shown(found: dict[str, Any], name: str) -> str:
    one = found[name]
    one = one["1"] if name in ("compiles", "correct") else one["1"]["1"] if name == "fast" else one
    return Estimate(**one).shown()


def main() -> None:
    """Prepare, run or report."""
    options = options_of(__doc__, DATA)
    if options.step == "prepare":
        tasks = prepare(options)
        print(f"{len(tasks.sft)} pairs, {len(tasks.grpo)} and {len(tasks.held_out)} tasks")
    elif options.step == "run":
        run(options, PROTOCOL)
    else:
        report(options.folder)


if __name__ == "__main__":
    main()
