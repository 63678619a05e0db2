"""Every setting of a training run: the keys of a recipe or `--config` file, and the options of one call.

One frozen dataclass per table of the file. The defaults are those of the recipe `pairs`. Not covered: reading
the file (`config`), the parameters of a reward scheme (`reward.schemes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from kcurate.core.options import DatasetOption, Option
from kcurate.local_models.settings import LoraSettings, ModelSettings
from kcurate.reward.settings import JudgeSettings, names_in


@dataclass(frozen=True)
class SftSettings:
    """Supervised fine-tuning on the tasks' known answers.

    `batch`: rows per optimizer step across all processes. `micro_batch`: rows per forward pass of one
    process (0: chosen automatically). `max_tokens`: prompt plus answer; longer rows are dropped, not
    truncated. `thought` kept: an empty thought before an answer is part of the context, not of the loss, so
    that the model does not learn to stop reasoning. `max_steps` 0: train for `epochs`. `packing`: several
    rows per sequence.
    `trl`: extra arguments for `trl.SFTConfig`.
    """

    learning_rate: float = 2e-4
    batch: int = 4
    micro_batch: int = 0
    max_tokens: int = 4096
    epochs: float = 8
    max_steps: int = 0
    optimizer: str = "adamw_torch"
    scheduler: str = "linear"
    warmup_steps: int = 100
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    packing: bool = False
    thought: Literal["empty", "kept"] = "empty"
    gradient_checkpointing: bool = True
    save_steps: int = 100
    keep_checkpoints: int = 2
    trl: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GrpoSettings:
    """GRPO, starting from the SFT adapter, which also serves as the frozen reference.

    Each optimizer step uses `generations` completions of each of `prompts` prompts, across all processes.
    `micro_batch`: completions per forward pass of one process (0: the largest divisor of its share up to 8).
    `generate_every`: steps per rollout batch; above 1, sampling runs less often in larger batches, and later
    steps train on slightly off-policy completions (GRPO's ratio clipping applies). Tasks whose prompt or
    known answer exceeds the token limits are dropped. `beta`: weight of the KL divergence from the reference
    (0: no reference is kept). `epsilon`, `epsilon_high` (0: the same): how far the ratio may fall and rise.
    `scale_rewards`: what advantages are divided by, the standard deviation of the group, of the batch, or
    nothing. `truncated`: completions cut at the length limit are left out of the loss (masked), lose up to 1
    for the last `overlong_tokens` before the limit (penalised; 0: a fifth of the limit), or are scored like
    others. `turns`: answers to a prompt, with the judge's findings between them (`train.turns`). `trl`: extra
    arguments for `trl.GRPOConfig`.
    """

    learning_rate: float = 1e-5
    prompts: int = 8
    generations: int = 8
    micro_batch: int = 0
    generate_every: int = 1
    max_prompt_tokens: int = 3072
    max_completion_tokens: int = 2048
    epochs: float = 1
    max_steps: int = 0
    optimizer: str = "adamw_torch"
    scheduler: str = "constant_with_warmup"
    warmup_steps: int = 0
    weight_decay: float = 0.0
    max_grad_norm: float = 0.2
    beta: float = 0.04
    temperature: float = 1.0
    top_p: float = 1.0
    epsilon: float = 0.2
    epsilon_high: float = 0.0
    scale_rewards: Literal["group", "batch", "none"] = "group"
    truncated: Literal["masked", "penalised", "scored"] = "masked"
    overlong_tokens: int = 0
    turns: int = 1
    loss: Literal["grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"] = "dapo"
    vllm: Literal["off", "colocate", "server"] = "off"
    gradient_checkpointing: bool = True
    save_steps: int = 10
    keep_checkpoints: int = 2
    trl: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RftSettings:
    """Rejection fine-tuning: SFT, with its settings, on the model's own right answers that are not copies.

    `samples`: completions for each GRPO task, within GRPO's token limits. `answers`: how many are kept for a
    task, the fastest first. `batch`: prompts sampled at a time.
    """

    samples: int = 8
    answers: int = 4
    temperature: float = 1.0
    top_p: float = 1.0
    batch: int = 64


@dataclass(frozen=True)
class RewardSettings:
    """The reward: a scheme of `kcurate.reward.schemes`, or a user's function as `module:function`.

    `values` override its parameters.
    """

    scheme: str = "pairs"
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CurriculumSettings:
    """`policy` off: all tasks from the start. `sqd`: stages of permitted techniques (`train.curriculum`).

    `pass-rate`: from the second epoch on, tasks that are solved about half the time are sampled more often.
    `pool`: prompts show earlier answers (`train.next_prompts`).
    """

    policy: str = "off"
    pool: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskSettings:
    """The prompts. `source`: pairs, kernelbench or kernelbench:PATH. `dataset`: where pairs come from.

    `brief`: prompts contain the short rules. `untimed`: include pairs that were never timed on a GPU.
    `held_out`: at least this share of the tasks is excluded from training, by whole families, those of the
    published test split first (0: none). `rollout`: the share of the remaining tasks that only GRPO uses, by
    whole families (0: SFT and GRPO both use all of them). `limit`: at most this many tasks, of many families,
    short ones (0: all).
    """

    source: Annotated[
        str,
        Option(
            "GRPO prompts: pairs, or kernelbench[:PATH].  [default: the recipe's]",
            "--tasks",
            "KIND",
            default=None,
        ),
    ] = "pairs"
    dataset: DatasetOption = ("builtin",)
    brief: bool = False
    untimed: bool = False
    held_out: float = 0.2
    rollout: float = 0.3
    split_seed: int = 42
    limit: int = 0


@dataclass(frozen=True)
class MeasureSettings:
    """Evaluation on held-out tasks after training: at least `samples` completions per row (0: none)."""

    samples: Annotated[
        int,
        Option(
            "Completions per score on held-out tasks; 0: no scores.  [default: 256]",
            metavar="N",
            min=0,
            default=None,
        ),
    ] = 256
    batch: int = 64
    max_completion_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    base: bool = True
    sft: bool = True
    seed: int = 0


@dataclass(frozen=True)
class CallOptions:
    """The options of one call, which are not stored with the settings of the run.

    `adapter`: GRPO starts from it instead of from the run's SFT adapter; a resumed run remembers it. `row`:
    score only `adapter`, under this name.
    """

    out: Annotated[
        Path | None, Option("The run's folder.  [default: runs/train-<time> in the workspace]", metavar="RUN")
    ] = None
    resume: Annotated[bool, Option("Resume the run in --out.")] = False
    adapter: Annotated[
        Path | None,
        Option("rft, grpo: start from this adapter; measure: score only this one.", metavar="DIR"),
    ] = None
    row: Annotated[str | None, Option("measure: name of the score row for --adapter.", metavar="NAME")] = None
    max_minutes: Annotated[
        float, Option("Stop training gracefully after M minutes; 0: no limit.", metavar="M", min=0)
    ] = 0.0
    yes: Annotated[bool, Option("Download the default model without --model.")] = False
    push: Annotated[
        str | None,
        Option(
            "Publish card and adapters on the Hub at the end.",
            metavar="USER/NAME",
            check="kcurate.hub.repository:check_name",
        ),
    ] = None
    private: Annotated[bool, Option("Create the repository on the Hub as private.")] = False


@dataclass(frozen=True)
class TrainSettings:
    """All settings of one run.

    `report`: where the trainers also log to (trackio, wandb, tensorboard). `push_checkpoints`: the trainers'
    Hub strategy if the run is pushed; the checkpoints of each stage go to a separate repository.
    """

    recipe: str = "pairs"
    seed: int = 42
    report: Annotated[
        tuple[str, ...],
        Option("Log to these as well: trackio, wandb, tensorboard.", metavar="LIST", read=names_in),
    ] = ()
    push_checkpoints: Literal["off", "every_save", "checkpoint", "all_checkpoints"] = "off"
    model: ModelSettings = field(default_factory=ModelSettings)
    lora: LoraSettings = field(default_factory=LoraSettings)
    tasks: TaskSettings = field(default_factory=TaskSettings)
    sft: SftSettings = field(default_factory=SftSettings)
    grpo: GrpoSettings = field(default_factory=GrpoSettings)
    rft: RftSettings = field(default_factory=RftSettings)
    reward: RewardSettings = field(default_factory=RewardSettings)
    curriculum: CurriculumSettings = field(default_factory=CurriculumSettings)
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    measure: MeasureSettings = field(default_factory=MeasureSettings)
