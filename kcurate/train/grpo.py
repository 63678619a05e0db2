"""GRPO on `trl.GRPOTrainer` with the judge as reward; the SFT adapter is the frozen reference.

Not covered: rewards (`reward.schemes`, `reward.pool`), the loop (`driving`), sampling (TRL's, or vLLM's
through it).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from torch.nn.attention import SDPBackend, sdpa_kernel
from trl import GRPOConfig, GRPOTrainer
from trl.rewards import get_soft_overlong_punishment

from kcurate.errors import InputError
from kcurate.local_models import weights
from kcurate.local_models.form import Form, fitting
from kcurate.reward.task import Pool as Judges
from kcurate.reward.task import Task
from kcurate.train import turns
from kcurate.train.callbacks import StepCallback
from kcurate.train.driving import Stage, arguments, batches, common, drive, opening, processes
from kcurate.train.next_prompts import NextPrompts, PassRate, Pool
from kcurate.train.settings import GrpoSettings
from kcurate.train.trl_reward import Rewards

MAX_MICRO_BATCH = 8
# Not cuDNN: with prompts padded on the left, some rows attend to nothing, and its gradients of these are NaN
# (cuDNN 9.19 and torch 2.11 on an H200).
ATTENTION = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)


class ChoosingTrainer(GRPOTrainer):  # type: ignore[misc]
    """Chooses the prompts just before it samples; `rows`: the row of each completion sampled last."""

    next_prompts: NextPrompts | None = None
    rows: Sequence[Mapping[str, Any]] = ()

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> Any:
        if self.next_prompts is not None:
            size = self.num_generations
            chosen = self.next_prompts.choose(inputs[::size])
            inputs = [dict(row) for row in chosen for _ in range(size)]
        self.rows = inputs
        return super()._generate_and_score_completions(inputs)


def chooser(
    stage: Stage, data: Sequence[dict[str, Any]], tasks: Mapping[str, Task], form: Form
) -> NextPrompts | None:
    """What chooses the prompts of a run; None: the order of the data set."""
    curriculum, seed = stage.settings.curriculum, stage.settings.seed
    if curriculum.pool:
        return Pool(tasks, form, stage.settings.grpo.max_prompt_tokens, seed)
    return PassRate(data, seed) if curriculum.policy == "pass-rate" else None


def rows(tasks: Sequence[Task], form: Form, settings: GrpoSettings) -> list[dict[str, Any]]:
    """Rows `{"prompt", "task_id"}` of the tasks that fit."""
    short = fitting(tasks, form, settings.max_prompt_tokens, settings.max_completion_tokens)
    return [{"prompt": form.prompt(task.prompt), "task_id": task.id} for task in short]


def padded(rows: Sequence[dict[str, Any]], batch: int) -> list[dict[str, Any]]:
    """The rows in order, with some of the last ones repeated so that the last rollout batch is full."""
    short = -len(rows) % batch
    return [*rows, *rows[len(rows) - batch :][:short]]


def steps_of(settings: GrpoSettings, count: int) -> int:
    """The steps of a run over `count` prompts; an incomplete rollout batch waits for the next epoch."""
    rollouts = count // (settings.prompts * settings.generate_every)
    return settings.max_steps or int(rollouts * settings.generate_every * settings.epochs)


def train(stage: Stage, tasks: Sequence[Task], pool: Judges, adapter: Path | None) -> int:
    """Run the stage to its end; returns the number of steps. `adapter` None: train a new adapter.

    Raises:
        InputError: fewer prompts than a rollout batch needs. StoppedError, MissingDependencyError: as in
            `driving.drive`.
    """
    settings = stage.settings.grpo
    tokenizer = weights.load_tokenizer(stage.settings.model)
    tokenizer.padding_side = "left"
    form = Form(tokenizer, stage.settings.model)
    data = rows(tasks, form, settings)
    left_out, needed = len(tasks) - len(data), settings.prompts * settings.generate_every
    if len(data) < needed:
        raise InputError(
            f"{len(data)} prompts ({left_out} too long), and a rollout batch needs {needed}",
            where="train grpo",
            hint="lower grpo.prompts or grpo.generate_every, raise grpo.max_prompt_tokens or "
            "grpo.max_completion_tokens, or choose another --dataset",
        )
    stage.note(f"grpo: {len(data)} prompts, {left_out} left out as too long")
    if stage.settings.curriculum.policy == "sqd":
        data = padded(data, needed)
    model = weights.load_model(stage.settings.model, adapter=adapter, trainable=True)
    by_id, ends = {task.id: task for task in tasks}, weights.end_tokens(model, tokenizer)
    next_prompts = chooser(stage, data, by_id, form)
    first = processes()[0] == 0
    rewards = Rewards(pool, by_id, form, ends, stage.run, writes=first, next_prompts=next_prompts)
    with opening("grpo.trl"):
        trainer = ChoosingTrainer(
            model=model,
            reward_funcs=[rewards.function(), *penalties(settings)],
            args=config(stage, len(data)),
            train_dataset=Dataset.from_list(data),
            processing_class=tokenizer,
            **turns.trainer_arguments(settings.turns, by_id, form, tokenizer, pool, ends),
            peft_config=weights.lora(stage.settings.lora, model) if adapter is None else None,
        )
    trainer.next_prompts = next_prompts
    callback = StepCallback(
        "grpo", stage.run, stage.stop, stage.note, rewards.take, period=settings.generate_every
    )
    hint = memory_hint(trainer.args.per_device_train_batch_size, settings)
    with sdpa_kernel(list(ATTENTION)):
        return drive(trainer, stage, callback, hint)


def config(stage: Stage, count: int) -> Any:
    """The `trl.GRPOConfig` of a run over `count` prompts.

    Raises:
        InputError: a batch size that does not divide, or arguments that the trainer rejects.
    """
    settings = stage.settings.grpo
    world = processes()[1]
    if settings.prompts % world:  # a group is judged, and its speeds compared, in one process
        raise InputError(
            f"{settings.prompts} prompts cannot be divided among {world} processes", where="grpo.prompts"
        )
    split = batches(settings, settings.prompts * settings.generations, MAX_MICRO_BATCH)
    values = {
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
        "epsilon": settings.epsilon,
        "epsilon_high": settings.epsilon_high or None,
        "scale_rewards": settings.scale_rewards,
        "mask_truncated_completions": settings.truncated == "masked",
        # Dropout would make the policy that samples differ from the one that is trained.
        "disable_dropout": True,
        "shuffle_dataset": stage.settings.curriculum.policy != "sqd",
        "max_tool_calling_iterations": settings.turns - 1 or None,
        "use_vllm": settings.vllm != "off",
    }
    if stage.settings.model.sampling == "continuous":
        values["use_transformers_continuous_batching"] = True
    # A whole rollout is sampled at a time: its prompts at once would need more memory than training does.
    rollout = settings.prompts // world * settings.generations * settings.generate_every
    values["generation_kwargs"] = stage.settings.model.static_cache(rollout) or None
    if settings.vllm != "off":
        values["vllm_mode"] = settings.vllm
    return arguments(GRPOConfig, values, settings.trl, "grpo.trl")


def penalties(settings: GrpoSettings) -> list[Any]:
    """Reward functions in addition to the judge: TRL's penalty for length, from 0 to -1 (DAPO)."""
    if settings.truncated != "penalised":
        return []
    longest = settings.max_completion_tokens
    return [get_soft_overlong_punishment(longest, settings.overlong_tokens or max(1, longest // 5))]


def memory_hint(micro_batch: int, settings: GrpoSettings) -> str:
    """The settings to change when out of memory, the most effective first."""
    changes = []
    if micro_batch > 1:
        changes.append(f"--set grpo.micro_batch={micro_batch // 2} (same result)")
    if not settings.gradient_checkpointing:
        changes.append("--set grpo.gradient_checkpointing=true (same result, slower)")
    changes.append(f"--set grpo.max_completion_tokens={settings.max_completion_tokens // 2}")
    changes.append(f"--set grpo.prompts={max(1, settings.prompts // 2)}")
    if settings.vllm == "colocate":
        changes.insert(0, "--set grpo.trl={vllm_gpu_memory_utilization=0.2}")
    return "; ".join(changes)
