"""Supervised fine-tuning on `trl.SFTTrainer`: rows of tokens, loss on the answer alone, LoRA.

Not covered: which tasks there are (`tasks_of`), the loop (`driving`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from datasets import Dataset
from torch.utils.data import RandomSampler
from trl import SFTConfig, SFTTrainer

from kcurate.errors import InputError
from kcurate.train import models
from kcurate.train.callbacks import StepCallback
from kcurate.train.driving import Stage, arguments, batches, common, drive, opening, processes
from kcurate.train.models import Form
from kcurate.train.settings import SftSettings
from kcurate.train.task import Task

# At 4096 tokens, four rows of a 7B model fit into 80 GB with checkpointing of activations.
MOST_AT_ONCE = 4


class WholeBatches(SFTTrainer):  # type: ignore[misc]
    """Takes as many rows in an epoch as fill its batches, others each time.

    The trainer itself would take a step on the few that are left, where a batch is more than a micro batch.
    """

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        count = len(self.train_dataset)
        batch = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        whole = count - count % batch
        if self.args.packing or not whole or self.args.train_sampling_strategy != "random":
            return super()._get_train_sampler(train_dataset)
        return RandomSampler(self.train_dataset, num_samples=whole)


def rows(tasks: Sequence[Task], form: Form, max_tokens: int) -> tuple[list[dict[str, Any]], int]:
    """Rows `{"input_ids", "completion_mask"}` of the tasks that have an answer; how many were too long.

    They are the tokens that generation starts from, then the answer's: the trainer's own way of making them
    teaches another context where a chat template opens an answer differently (with a thought). A row that is
    longer than `max_tokens` is left out: an answer that is cut teaches to stop anywhere.
    """
    made, too_long = [], 0
    for task in tasks:
        if task.answer is None:
            continue
        prompt, answer = form.row(task.prompt, task.answer)
        if len(prompt) + len(answer) > max_tokens:
            too_long += 1
            continue
        made.append(
            {"input_ids": [*prompt, *answer], "completion_mask": [0] * len(prompt) + [1] * len(answer)}
        )
    return made, too_long


def steps_of(settings: SftSettings, count: int) -> int:
    """How many steps a run over `count` rows takes; rows that do not fill a batch wait for the next epoch."""
    return settings.max_steps or math.ceil(max(1, count // settings.batch) * settings.epochs)


def train(stage: Stage, tasks: Sequence[Task]) -> int:
    """Run the stage to its end; the number of steps.

    Raises:
        InputError: no task has an answer, or none is short enough. StoppedError, MissingDependencyError: as
            in `driving.drive`.
    """
    settings = stage.settings.sft
    tokenizer = models.load_tokenizer(stage.settings.model)
    form = Form(tokenizer, stage.settings.model)
    data, too_long = rows(tasks, form, settings.max_tokens)
    if not data:
        raise InputError(
            f"no rows to train on ({len(tasks)} tasks, {too_long} longer than {settings.max_tokens} tokens)",
            where="train sft",
            hint="choose another --dataset, or raise sft.max_tokens",
        )
    stage.note(f"sft: {len(data)} rows, {too_long} left out as longer than {settings.max_tokens} tokens")
    model = models.load_model(stage.settings.model, trainable=True)
    with opening("sft.trl"):
        trainer = WholeBatches(
            model=model,
            args=config(stage, len(data)),
            train_dataset=Dataset.from_list(data),
            processing_class=tokenizer,
            peft_config=models.lora(stage.settings.lora, model),
        )
    callback = StepCallback("sft", stage.run, stage.stop, stage.note)
    return drive(trainer, stage, callback, knobs(trainer.args.per_device_train_batch_size, settings))


def config(stage: Stage, count: int) -> Any:
    """The `trl.SFTConfig` of a run over `count` rows.

    Raises:
        InputError: batches that do not divide, or arguments that the trainer refuses.
    """
    settings = stage.settings.sft
    world = processes()[1]
    if settings.batch % world:
        raise InputError(
            f"{settings.batch} rows a step do not divide by {world} processes", where="sft.batch"
        )
    given = {
        **common(stage, settings, steps_of(settings, count)),
        **batches(settings, settings.batch, MOST_AT_ONCE),
        "max_length": settings.max_tokens,
        "packing": settings.packing,
        # A batch that is not full would be filled up with other rows in several processes.
        "dataloader_drop_last": count >= settings.batch and not settings.packing,
        "completion_only_loss": True,
    }
    return arguments(SFTConfig, given, settings.trl, "sft.trl")


def knobs(at_once: int, settings: SftSettings) -> str:
    """What to turn when memory runs out, the first first."""
    turns = []
    if at_once > 1:
        turns.append(f"--set sft.micro_batch={at_once // 2} (same result)")
    if not settings.gradient_checkpointing:
        turns.append("--set sft.gradient_checkpointing=true (same result, slower)")
    turns.append(f"--set sft.max_tokens={settings.max_tokens // 2}")
    turns.append("several GPUs: accelerate launch with kcurate/train/accelerate/fsdp.yaml")
    return "; ".join(turns)
