"""Supervised fine-tuning on `trl.SFTTrainer`: tokenised rows, loss on the completion only, LoRA.

Not covered: where tasks come from (`reward.pair_tasks`), the loop (`driving`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from torch.utils.data import RandomSampler
from trl import SFTConfig, SFTTrainer

from kcurate.errors import InputError
from kcurate.local_models import weights
from kcurate.local_models.form import Form
from kcurate.reward.task import Task
from kcurate.train.callbacks import StepCallback
from kcurate.train.driving import Stage, arguments, batches, common, drive, opening, processes
from kcurate.train.settings import SftSettings

# With activation checkpointing, four rows of 4096 tokens of a 7B model fit into 80 GB.
MAX_MICRO_BATCH = 4


class WholeBatches(SFTTrainer):  # type: ignore[misc]
    """Uses only as many rows per epoch as fill its batches, a different subset each time.

    With gradient accumulation the trainer itself would take a step on the incomplete last batch.
    """

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        count = len(self.train_dataset)
        batch = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        whole = count - count % batch
        if self.args.packing or not whole or self.args.train_sampling_strategy != "random":
            return super()._get_train_sampler(train_dataset)
        return RandomSampler(self.train_dataset, num_samples=whole)


def rows(
    tasks: Sequence[Task], form: Form, max_tokens: int, thought: str = "empty"
) -> tuple[list[dict[str, Any]], int]:
    """Rows `{"input_ids", "completion_mask"}` of the tasks with a known answer; how many were too long.

    A row is the tokens that generation starts from, then the known answer. The trainer's own tokenisation
    would train on a different context if the chat template starts completions differently (with a thought).
    Rows longer than `max_tokens` are left out: a truncated answer would teach the model to stop anywhere.
    """
    rows, too_long = [], 0
    for task in tasks:
        if task.answer is None:
            continue
        prompt, answer = form.row(task.prompt, task.answer, thought=thought)
        if len(prompt) + len(answer) > max_tokens:
            too_long += 1
            continue
        rows.append(
            {"input_ids": [*prompt, *answer], "completion_mask": [0] * len(prompt) + [1] * len(answer)}
        )
    return rows, too_long


def steps_of(settings: SftSettings, count: int) -> int:
    """The number of steps of a run over `count` rows; an incomplete batch is not used in that epoch."""
    return settings.max_steps or math.ceil(max(1, count // settings.batch) * settings.epochs)


def train(stage: Stage, tasks: Sequence[Task], adapter: Path | None = None) -> int:
    """Run the stage to its end; returns the number of steps. `adapter` None: train a new adapter.

    Raises:
        InputError: no task has a known answer that fits. StoppedError, MissingDependencyError: as in
            `driving.drive`.
    """
    settings = stage.settings.sft
    tokenizer = weights.load_tokenizer(stage.settings.model)
    form = Form(tokenizer, stage.settings.model)
    data, too_long = rows(tasks, form, settings.max_tokens, settings.thought)
    if not data:
        raise InputError(
            f"no rows to train on ({len(tasks)} tasks, {too_long} over {settings.max_tokens} tokens)",
            where=f"train {stage.name}",
            hint="choose another --dataset, or raise sft.max_tokens",
        )
    stage.note(f"{stage.name}: {len(data)} rows, {too_long} left out with over {settings.max_tokens} tokens")
    model = weights.load_model(stage.settings.model, adapter=adapter, trainable=True)
    with opening("sft.trl"):
        trainer = WholeBatches(
            model=model,
            args=config(stage, len(data)),
            train_dataset=Dataset.from_list(data),
            processing_class=tokenizer,
            peft_config=weights.lora(stage.settings.lora, model) if adapter is None else None,
        )
    callback = StepCallback(stage.name, stage.run, stage.stop, stage.note)
    return drive(trainer, stage, callback, memory_hint(trainer.args.per_device_train_batch_size, settings))


def config(stage: Stage, count: int) -> Any:
    """The `trl.SFTConfig` of a run over `count` rows.

    Raises:
        InputError: a batch size that does not divide, or arguments that the trainer rejects.
    """
    settings = stage.settings.sft
    world = processes()[1]
    if settings.batch % world:
        raise InputError(
            f"{settings.batch} rows per step cannot be divided among {world} processes", where="sft.batch"
        )
    values = {
        **common(stage, settings, steps_of(settings, count)),
        **batches(settings, settings.batch, MAX_MICRO_BATCH),
        "max_length": settings.max_tokens,
        "packing": settings.packing,
        # With several processes an incomplete batch would be filled up with repeated rows.
        "dataloader_drop_last": count >= settings.batch and not settings.packing,
        "completion_only_loss": True,
    }
    return arguments(SFTConfig, values, settings.trl, "sft.trl")


def memory_hint(micro_batch: int, settings: SftSettings) -> str:
    """The settings to change when out of memory, the most effective first."""
    changes = []
    if micro_batch > 1:
        changes.append(f"--set sft.micro_batch={micro_batch // 2} (same result)")
    if not settings.gradient_checkpointing:
        changes.append("--set sft.gradient_checkpointing=true (same result, slower)")
    changes.append(f"--set sft.max_tokens={settings.max_tokens // 2}")
    changes.append("several GPUs: accelerate launch with kcurate/train/accelerate/fsdp.yaml")
    return "; ".join(changes)
