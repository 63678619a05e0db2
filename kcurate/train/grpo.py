"""Reinforcement by the judge on `trl.GRPOTrainer`, from the supervised adapter, which stays the reference.

Not covered: rewards (`rewards`, `reward_pool`), the loop (`driving`), generation (TRL's, or vLLM through it).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from kcurate.errors import InputError
from kcurate.train import models
from kcurate.train.callbacks import StepCallback
from kcurate.train.driving import Stage, arguments, common, drive, micro_batch, processes
from kcurate.train.judging import Pool, Rewards
from kcurate.train.models import Form
from kcurate.train.settings import GrpoSettings
from kcurate.train.task import Task

MOST_AT_ONCE = 8


def rows(tasks: Sequence[Task], form: Form, max_tokens: int) -> tuple[list[dict[str, Any]], int]:
    """Rows `{"prompt", "task_id"}`, and how many were left out with prompts longer than `max_tokens`."""
    fitting = [task for task in tasks if form.tokens(task.prompt) <= max_tokens]
    made = [{"prompt": form.prompt(task.prompt), "task_id": task.id} for task in fitting]
    return made, len(tasks) - len(fitting)


def steps_of(settings: GrpoSettings, count: int) -> int:
    """How many steps a run over `count` prompts takes; what does not fill a step waits for the next epoch."""
    return settings.max_steps or int(count // settings.prompts * settings.epochs)


def train(stage: Stage, tasks: Sequence[Task], pool: Pool, adapter: Path | None) -> int:
    """Run the stage to its end; the number of steps. `adapter` None: a new one, the base is the reference.

    Raises:
        InputError: no prompts, or fewer than a step asks for. StoppedError, MissingDependencyError: as in
            `driving.drive`.
    """
    settings = stage.settings.grpo
    tokenizer = models.load_tokenizer(stage.settings.model)
    tokenizer.padding_side = "left"
    form = Form(tokenizer, stage.settings.model)
    data, too_long = rows(tasks, form, settings.max_prompt_tokens)
    if len(data) < settings.prompts:
        raise InputError(
            f"{len(data)} prompts ({too_long} left out as longer than {settings.max_prompt_tokens} tokens), "
            f"and a step takes {settings.prompts}",
            where="train grpo",
            hint="lower grpo.prompts, raise grpo.max_prompt_tokens, or choose another --dataset",
        )
    stage.note(f"grpo: {len(data)} prompts, {too_long} left out as too long")
    model = models.load_model(stage.settings.model, adapter=adapter, trainable=True)
    rewards = Rewards(pool, {one.id: one for one in tasks}, form, stage.run, writes=processes()[0] == 0)
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=rewards.function(),
        args=config(stage, len(data)),
        train_dataset=Dataset.from_list(data),
        processing_class=tokenizer,
        peft_config=models.lora(stage.settings.lora, model) if adapter is None else None,
    )
    callback = StepCallback("grpo", stage.run, stage.stop, stage.note, rewards.take)
    return drive(trainer, stage, callback, knobs(trainer.args.per_device_train_batch_size, settings))


def config(stage: Stage, count: int) -> Any:
    """The `trl.GRPOConfig` of a run over `count` prompts.

    Raises:
        InputError: batches that do not divide, or arguments that the trainer refuses.
    """
    settings = stage.settings.grpo
    world = processes()[1]
    if settings.prompts % world:  # a group is judged, and its speeds compared, in one process
        raise InputError(
            f"{settings.prompts} prompts do not divide by {world} processes", where="grpo.prompts"
        )
    share = settings.prompts * settings.generations // world
    at_once = micro_batch(settings.micro_batch, share, MOST_AT_ONCE)
    given = {
        **common(stage, settings, steps_of(settings, count)),
        "per_device_train_batch_size": at_once,
        "gradient_accumulation_steps": share // at_once,
        "steps_per_generation": share // at_once,
        "num_generations": settings.generations,
        "max_completion_length": settings.max_completion_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "beta": settings.beta,
        "loss_type": settings.loss,
        "shuffle_dataset": stage.settings.curriculum.policy == "off",
        "use_vllm": settings.vllm != "off",
    }
    if settings.vllm != "off":
        given["vllm_mode"] = settings.vllm
    return arguments(GRPOConfig, given, settings.trl, "grpo.trl")


def knobs(at_once: int, settings: GrpoSettings) -> str:
    """What to turn when memory runs out, the first first."""
    turns = []
    if at_once > 1:
        turns.append(f"--set grpo.micro_batch={at_once // 2} (same result)")
    if not settings.gradient_checkpointing:
        turns.append("--set grpo.gradient_checkpointing=true (same result, slower)")
    turns.append(f"--set grpo.max_completion_tokens={settings.max_completion_tokens // 2}")
    turns.append(f"--set grpo.prompts={max(1, settings.prompts // 2)}")
    if settings.vllm == "colocate":
        turns.insert(0, "--set grpo.trl={vllm_gpu_memory_utilization=0.2}")
    return "; ".join(turns)
