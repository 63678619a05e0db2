"""Sampling by a model in this process: plain generate, static cache, continuous batching; merged or not.

    python benchmarks/sampling_ways.py --model NAME --out docs/data/MACHINE/sampling-ways.jsonl
    python benchmarks/sampling_ways.py --model random --out OUT --tokens 64 --prompts 8      # a CPU

The prompts are those of the built-in pairs. The adapter has no effect (its B is zero), so that every way
samples from the same distribution. A row is one run of one way: seconds, those of this process's CPU time
(which a busy machine changes less), completions, tokens, and the machine. Rows that are there are not
measured again; the ways take turns, so that a busy machine slows all alike. Not covered: vLLM, which is
the trainer's own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

WAYS = [(way, merged) for way in ("plain", "static", "continuous") for merged in (False, True)]


def machine() -> dict[str, Any]:
    """Where this runs, with the versions that matter."""
    import torch
    import transformers

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    return {
        "device": gpu or f"{platform.machine()} CPU, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def adapter(settings: Any, into: Path) -> Path:
    """A new adapter, whose effect is none."""
    from peft import get_peft_model

    from kcurate.local_models import weights
    from kcurate.local_models.settings import LoraSettings

    model = weights.load_model(settings, trainable=True)
    get_peft_model(model, weights.lora(LoraSettings(r=16, alpha=32), model)).save_pretrained(into)
    return into


def measured(settings: Any, made: Path, tasks: Any, given: argparse.Namespace) -> dict[str, Any]:
    """One run: the weights are loaded, and one prompt is sampled, before the clock starts."""
    from kcurate.evaluation.local_model import LocalModel, SamplingOptions

    drawing = SamplingOptions(given.tokens, batch=given.batch)
    with contextlib.closing(LocalModel(settings, made, drawing)) as model:
        asked = [(task.prompt, n) for n in range(given.samples) for task in tasks]
        model.sample(asked[:1])
        begun_s, begun_cpu_s = time.monotonic(), time.process_time()
        replies = model.sample(asked)
        seconds, cpu_s = time.monotonic() - begun_s, time.process_time() - begun_cpu_s
    tokens = sum(one.output_tokens or 0 for one in replies)
    return {
        "seconds": round(seconds, 3),
        "cpu_s": round(cpu_s, 3),
        "completions": len(replies),
        "tokens": tokens,
        "tokens_per_s": round(tokens / seconds, 1),
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="a name, a folder, or random")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--samples", type=int, default=1, help="of each prompt")
    parser.add_argument("--tokens", type=int, default=512, help="longest completion")
    parser.add_argument("--batch", type=int, default=64, help="of plain generate and the static cache")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    from kcurate.local_models.libraries import quiet
    from kcurate.local_models.settings import ModelSettings
    from kcurate.reward import pair_tasks
    from kcurate.train import random_model

    tasks = [one for one in pair_tasks.load(brief=True) if one.technique is None][: given.prompts]
    kept = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    if given.model == random_model.NAME:
        random_model.on_one_thread()
    about = {
        **machine(),
        "model": ModelSettings(given.model).shown,
        **{name: getattr(given, name) for name in ("prompts", "samples", "batch")},
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, quiet():
        name = given.model
        if name == random_model.NAME:
            random_model.write(Path(work) / "base", tasks, seed=1)
            name = str(Path(work) / "base")
        made = adapter(ModelSettings(name), Path(work) / "adapter")
        for number in range(given.rounds):
            for way, merged in WAYS:
                row = {**about, "max_tokens": given.tokens, "way": way, "merged": merged, "round": number}
                if any(row.items() <= one.items() for one in kept):
                    continue
                settings = ModelSettings(name, sampling=way, merged=merged)  # type: ignore[arg-type]
                row |= measured(settings, made, tasks, given)
                with given.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
