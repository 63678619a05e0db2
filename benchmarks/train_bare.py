"""SFT with TRL and nothing else: what `benchmarks/train.py` compares kcurate with.

    python benchmarks/train_bare.py CONFIG.toml OUT.jsonl

CONFIG is the config.toml of a kcurate run, for the same rows and the same numbers. One line a step:
`{"step", "loss", "num_tokens", "wall_s"}`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import tomllib
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer

from kcurate import prompts
from kcurate.reward import pair_tasks, splits


class Clock(TrainerCallback):  # type: ignore[misc]
    """Writes a line a step, as anyone would who wants to know."""

    def __init__(self, out: Path) -> None:
        self.out = out.open("w")
        self.started_s = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Write a line."""
        if logs and "loss" in logs:
            line = {"step": state.global_step, "wall_s": time.monotonic() - self.started_s, **logs}
            print(json.dumps(line), file=self.out, flush=True)


def rows(config: dict[str, Any], tokenizer: Any) -> list[dict[str, Any]]:
    """Prompt and completion of every pair that is short enough."""
    tasks = pair_tasks.load(
        *config["tasks"]["dataset"], brief=config["tasks"]["brief"], untimed=config["tasks"]["untimed"]
    )
    found = []
    for task in splits.split(tasks, config["tasks"]["held_out"], config["tasks"]["split_seed"])[0]:
        row = {
            "prompt": prompts.chat(task.prompt),
            "completion": [{"role": "assistant", "content": task.answer}],
        }
        text = tokenizer.apply_chat_template(row["prompt"] + row["completion"], tokenize=False)
        if (
            task.answer
            and len(tokenizer(text, add_special_tokens=False).input_ids) <= config["sft"]["max_tokens"]
        ):
            found.append(row)
    return found


def main() -> None:
    """Train as the file says."""
    warnings.filterwarnings("ignore")
    config = tomllib.loads(Path(sys.argv[1]).read_text())
    own, lora = config["sft"], config["lora"]
    on_gpu = torch.cuda.is_available()
    dtype = torch.bfloat16 if on_gpu else torch.float32
    tokenizer = AutoTokenizer.from_pretrained(config["model"]["name"])
    model = AutoModelForCausalLM.from_pretrained(
        config["model"]["name"], dtype=dtype, attn_implementation="sdpa"
    )
    at_once = own["micro_batch"] or min(own["batch"], 4)
    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=model,
            args=SFTConfig(
                output_dir=folder,
                learning_rate=own["learning_rate"],
                max_steps=own["max_steps"],
                per_device_train_batch_size=at_once,
                gradient_accumulation_steps=own["batch"] // at_once,
                gradient_checkpointing=own["gradient_checkpointing"],
                max_length=own["max_tokens"],
                completion_only_loss=True,
                lr_scheduler_type=own["scheduler"],
                max_grad_norm=own["max_grad_norm"],
                seed=config["seed"],
                bf16=on_gpu,
                use_cpu=not on_gpu,
                logging_steps=1,
                save_strategy="no",
                dataloader_drop_last=True,
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list(rows(config, tokenizer)),
            processing_class=tokenizer,
            peft_config=LoraConfig(
                r=lora["r"],
                lora_alpha=lora["alpha"],
                lora_dropout=lora["dropout"],
                target_modules=lora["targets"],
                task_type="CAUSAL_LM",
            ),
            callbacks=[Clock(Path(sys.argv[2]))],
        )
        trainer.train()


if __name__ == "__main__":
    main()
