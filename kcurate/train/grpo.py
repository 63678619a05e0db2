"""Reinforcement by the judge on `trl.GRPOTrainer`, from the supervised adapter, which stays the reference.

Not covered: rewards (`reward.schemes`, `reward.pool`), the loop (`driving`), generation (TRL's, or vLLM
through it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from torch.nn.attention import SDPBackend, sdpa_kernel
from trl import GRPOConfig, GRPOTrainer

from kcurate.errors import InputError
from kcurate.train import models
from kcurate.train.callbacks import StepCallback
from kcurate.train.driving import Stage, arguments, batches, common, drive, opening, processes
from kcurate.train.models import Form
from kcurate.train.reward.trl_reward import Pool, Rewards
from kcurate.train.settings import GrpoSettings
from kcurate.train.task import Task

MOST_AT_ONCE = 8
# Not cuDNN: prompts are padded on the left, which attends to nothing, and its gradients of such rows are no
# numbers (seen with cuDNN 9.19 and torch 2.11 on an H200).
ATTENTION = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)


def rows(tasks: Sequence[Task], form: Form, settings: GrpoSettings) -> list[dict[str, Any]]:
    """Rows `{"prompt", "task_id"}` of the tasks that fit."""
    asked = models.fitting(tasks, form, settings.max_prompt_tokens, settings.max_completion_tokens)
    return [{"prompt": form.prompt(task.prompt), "task_id": task.id} for task in asked]


def filled(rows: Sequence[dict[str, Any]], draw: int) -> list[dict[str, Any]]:
    """Rows whose order stays, and which fill every draw: some of the last come twice, or would never come."""
    short = -len(rows) % draw
    return [*rows, *rows[len(rows) - draw :][:short]]


def steps_of(settings: GrpoSettings, count: int) -> int:
    """How many steps a run over `count` prompts takes; what does not fill a draw waits for the next epoch."""
    draws = count // (settings.prompts * settings.generate_every)
    return settings.max_steps or int(draws * settings.generate_every * settings.epochs)


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
    data = rows(tasks, form, settings)
    left_out, needed = len(tasks) - len(data), settings.prompts * settings.generate_every
    if len(data) < needed:
        raise InputError(
            f"{len(data)} prompts ({left_out} left out as too long), and a draw takes {needed}",
            where="train grpo",
            hint="lower grpo.prompts or grpo.generate_every, raise grpo.max_prompt_tokens or "
            "grpo.max_completion_tokens, or choose another --dataset",
        )
    stage.note(f"grpo: {len(data)} prompts, {left_out} left out as too long")
    if stage.settings.curriculum.policy != "off":
        data = filled(data, needed)
    model = models.load_model(stage.settings.model, adapter=adapter, trainable=True)
    rewards = Rewards(pool, {one.id: one for one in tasks}, form, stage.run, writes=processes()[0] == 0)
    with opening("grpo.trl"):
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=rewards.function(),
            args=config(stage, len(data)),
            train_dataset=Dataset.from_list(data),
            processing_class=tokenizer,
            peft_config=models.lora(stage.settings.lora, model) if adapter is None else None,
        )
    callback = StepCallback(
        "grpo", stage.run, stage.stop, stage.note, rewards.take, period=settings.generate_every
    )
    turns = knobs(trainer.args.per_device_train_batch_size, settings)
    with sdpa_kernel(list(ATTENTION)):
        return drive(trainer, stage, callback, turns)


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
    split = batches(settings, settings.prompts * settings.generations, MOST_AT_ONCE)
    given = {
        **common(stage, settings, steps_of(settings, count)),
        **split,
        "save_steps": math.ceil(settings.save_steps / settings.generate_every) * settings.generate_every,
        "steps_per_generation": split["gradient_accumulation_steps"] * settings.generate_every,
        "num_generations": settings.generations,
        "max_completion_length": settings.max_completion_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "beta": settings.beta,
        "loss_type": settings.loss,
        # With dropout on, answers would be drawn from other models than the one that learns and is scored.
        "disable_dropout": True,
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
