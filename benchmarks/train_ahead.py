"""GRPO steps whose answers are given: what judging them while they are drawn saves, and what it costs.

    python benchmarks/train_ahead.py --model MODEL [--replies answers.jsonl] [--repeats 2] [--out FILE.json]

The model computes every token as it would, but says what stands in `--replies` (an `answers.jsonl` of a run,
of which `--row` is taken; else what SmolLM2 said on an H200): so steps with `judge.ahead` and without it draw
and judge the same, in turns, and the weights do not matter. Printed for each: seconds a step, and how many of
them went into drawing and into waiting for rewards. The judges run before the first step. Needs a GPU to say
much.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

REPLIES = Path(__file__).resolve().parent.parent / "docs/data/nvidia-h200/training/replies.jsonl"
PROMPTS = GENERATIONS = 8
SETTINGS = (
    "tasks.brief=true", "tasks.held_out=0.0", f"grpo.prompts={PROMPTS}", f"grpo.generations={GENERATIONS}",
    "grpo.max_prompt_tokens=1536", "grpo.temperature=0.7", "grpo.gradient_checkpointing=false",
    "grpo.micro_batch=32",
)  # fmt: skip


def recorded(path: Path, row: str) -> dict[str, list[str]]:
    """The answers of one row by their task, as many as a step asks for; tasks with fewer are left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for text in path.read_text().splitlines():
        line = json.loads(text)
        if line["row"] == row:
            found[line["task"]].append(line["reply"])
    return {task: all_[:GENERATIONS] for task, all_ in found.items() if len(all_) >= GENERATIONS}


def say(model: Any, tokenizer: Any, prompts: dict[tuple[int, ...], list[str]], spent: list[float]) -> None:
    """Make `model.generate` say the answers of each prompt, at the pace at which it draws."""
    import torch
    from transformers import LogitsProcessor, LogitsProcessorList

    draw = model.generate

    def generate(*args: Any, **given: Any) -> Any:
        ids, mask = given["input_ids"], given["attention_mask"].bool()
        left = {prompt: list(texts) for prompt, texts in prompts.items()}
        texts = [left[tuple(one[there].tolist())].pop() for one, there in zip(ids, mask, strict=True)]
        said = [
            [*tokenizer(text, add_special_tokens=False).input_ids, tokenizer.eos_token_id] for text in texts
        ]
        longest = max(map(len, said))
        table = torch.full((len(said), longest), tokenizer.eos_token_id, device=ids.device)
        for place, tokens in enumerate(said):
            table[place, : len(tokens)] = torch.tensor(tokens, device=ids.device)

        class Dictated(LogitsProcessor):  # type: ignore[misc]
            def __call__(self, so_far: Any, scores: Any) -> Any:
                at = so_far.shape[1] - ids.shape[1]
                wanted = table[:, min(at, longest - 1)]
                return torch.full_like(scores, float("-inf")).scatter_(1, wanted[:, None], 0.0)

        begun = time.monotonic()
        result = draw(*args, **given, logits_processor=LogitsProcessorList([Dictated()]))
        spent.append(time.monotonic() - begun)
        return result

    model.generate = generate


def steps(
    given: argparse.Namespace, answers: dict[str, list[str]], ahead: bool, work: Path
) -> list[dict[str, Any]]:
    """One short run; a line a step."""
    from train_smollm2 import variants

    from kcurate.train import devices, grpo, models, pair_tasks, stage
    from kcurate.train.config import resolve
    from kcurate.train.driving import Stage, quiet
    from kcurate.train.models import Form
    from kcurate.train.run_folder import RunFolder
    from kcurate.train.stopping import Stop

    longest = given.tokens
    options = {
        "model": {"name": given.model},
        "tasks": {"dataset": ["builtin", str(variants(work / "variants"))]},
    }
    options["judge"] = {"ahead": ahead, "backend": given.backend}
    sets = [*SETTINGS, f"grpo.max_completion_tokens={longest}", f"grpo.max_steps={given.steps}", *given.sets]
    settings = resolve(sets=sets, options=options)
    tokenizer = models.load_tokenizer(settings.model)
    form = Form(tokenizer, settings.model)
    known = pair_tasks.load(*settings.tasks.dataset, brief=True, untimed=settings.tasks.untimed)
    tasks = [task for task in known if task.id in answers]
    prompts = {tuple(form.prompt_ids(task.prompt)): answers[task.id] for task in tasks}
    folder = RunFolder(work / f"run-{time.monotonic_ns()}")
    folder.root.mkdir(parents=True)
    drawn: list[float] = []
    trainer = grpo.GRPOTrainer

    class Saying(trainer):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            say(self.model, tokenizer, prompts, drawn)

    config = stage.TrainConfig(settings=settings, out=folder.root)
    grpo.GRPOTrainer = Saying
    try:
        with quiet(), stage.judges(config, folder, devices.settle(settings.judge), 0) as pool:
            begun = time.monotonic()
            pool.score_now(tasks[:1], [str(tasks[0].answer)])
            print(f"judges ready after {time.monotonic() - begun:.1f} s", flush=True)
            grpo.train(
                Stage("grpo", folder, settings, Stop(0), lambda text: print(text, flush=True)),
                tasks,
                pool,
                None,
            )
    finally:
        grpo.GRPOTrainer = trainer
    lines = list(folder.metrics.lines("grpo"))
    return [
        {
            "step_s": round(line["step_time"], 2),
            "drawing_s": round(spent, 2),
            "waited_s": line["waited_s"],
            "share": round(line["waited_s"] / line["step_time"], 4),
            "tokens": line["completions/max_length"],
            "grad_norm": line["grad_norm"],
            "outcomes": line["outcomes"],
        }
        for line, spent in zip(lines, drawn, strict=True)
    ]


def machine() -> dict[str, Any]:
    """Where this runs."""
    import torch
    import transformers

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "cpus": os.cpu_count(),
        "gpus": gpus,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--replies", type=Path, default=REPLIES)
    parser.add_argument("--row", default="SFT+GRPO")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=640)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--set", dest="sets", action="append", default=[])
    given = parser.parse_args()
    answers = recorded(given.replies, given.row)
    found: dict[str, list[Any]] = {"after": [], "ahead": []}
    where = machine()
    with tempfile.TemporaryDirectory() as name:
        for _ in range(given.repeats):
            for how in found:
                found[how].append(steps(given, answers, how == "ahead", Path(name)))
                print(how, json.dumps(found[how][-1]), flush=True)
                if given.out:
                    given.out.write_text(json.dumps({**where, **found}, indent=2) + "\n")
    names = ("step_s", "drawing_s", "waited_s")
    print(f"{'64 answers a step':20}", *(f"{name:>10}" for name in (*names, "share")))
    for how, runs in found.items():
        flat = [step for run in runs for step in run]
        share = sum(step["waited_s"] for step in flat) / sum(step["step_s"] for step in flat)
        middle = [statistics.median(step[name] for step in flat) for name in names]
        print(f"{how:20}", *(f"{number:10.1f}" for number in middle), f"{share:10.3f}")


if __name__ == "__main__":
    main()
