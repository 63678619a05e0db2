"""Every number of a training run, by name: what a recipe or `--config` file may say.

One frozen dataclass a table of the file; the defaults are those of the paper that the recipe `kernelcompare`
names, or say where else they come from. Not covered: reading the file (`config`), what a reward's numbers
mean (`reward.schemes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

DEFAULT_MODEL = "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B"
# All linear layers of attention and of the feed-forward block, by the names that Llama and Qwen give them.
LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class ModelSettings:
    """`name`: on the Hub, a folder, or a `.gguf` file. `dtype` auto: bfloat16 on a GPU, float32 elsewhere.

    `chat_template` false: prompts go in as plain text even where the tokenizer has a template.
    """

    name: str = DEFAULT_MODEL
    revision: str = ""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    attention: str = "sdpa"
    chat_template: bool = True
    trust_remote_code: bool = False


@dataclass(frozen=True)
class LoraSettings:
    """Low-rank adapters; the base model stays as it is."""

    r: int = 32
    alpha: int = 64
    dropout: float = 0.1
    targets: tuple[str, ...] = LORA_TARGETS


@dataclass(frozen=True)
class SftSettings:
    """Supervised fine-tuning on the answers of the tasks.

    `batch` rows go into one step over all processes, `micro_batch` of them at once in one (0: as many as
    fit that). `max_tokens`: prompt and answer; longer rows are left out, never cut. `max_steps` 0: `epochs`
    decide. `packing`: several rows in one sequence. `trl` goes to `trl.SFTConfig` as it is.
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
    gradient_checkpointing: bool = True
    save_steps: int = 100
    keep_checkpoints: int = 2
    trl: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GrpoSettings:
    """Reinforcement from the supervised adapter, which stays as the frozen reference.

    A step takes `generations` answers to each of `prompts` prompts over all processes; `micro_batch` of them
    go through the model at once in one process (0: 8, or what divides them). Answers are drawn for
    `generate_every` steps at a time: with more than 1 there are fewer, larger waits, and the later steps of a
    draw learn from answers of a model that is a few steps older (clipped, as GRPO has it). Tasks whose
    prompt, or whose known answer, is longer than the limits are left out. `beta` weighs the divergence from
    the reference (0: none is kept). `vllm`: off, colocate or server. `trl` goes to
    `trl.GRPOConfig` as it is.
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
    loss: Literal["grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"] = "dapo"
    vllm: Literal["off", "colocate", "server"] = "off"
    gradient_checkpointing: bool = True
    save_steps: int = 10
    keep_checkpoints: int = 2
    trl: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RewardSettings:
    """What an answer earns: a scheme of `train.reward.schemes`, with other numbers than its own if given."""

    scheme: str = "kernelcompare"
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CurriculumSettings:
    """Stages of permitted techniques (`kcurate.train.curriculum`); off: all tasks from the start."""

    policy: str = "off"
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JudgeSettings:
    """Who judges. `gpus` empty: the GPU that trains, in turns with it. `jobs` 0: what suits the machine.

    `ray`: the address of a Ray cluster that judges in place of this machine.
    """

    backend: Literal["auto", "cuda", "emulator"] = "auto"
    train_gpu: int = 0
    gpus: tuple[int, ...] = ()
    jobs: int = 0
    timed: bool = True
    ray: str = ""


@dataclass(frozen=True)
class TaskSettings:
    """What is asked. `source`: pairs, kernelbench or kernelbench:PATH. `dataset`: where pairs come from.

    `brief`: prompts with the short rules. `untimed`: also pairs that no GPU has timed. `held_out`: the share
    of the tasks, by whole families, that training never sees. `limit`: no more tasks than this (0: all).
    """

    source: str = "pairs"
    dataset: tuple[str, ...] = ("builtin",)
    brief: bool = False
    untimed: bool = False
    held_out: float = 0.2
    split_seed: int = 42
    limit: int = 0


@dataclass(frozen=True)
class MeasureSettings:
    """Scores on the held-out tasks after training: at least `samples` answers a row; 0: none."""

    samples: int = 256
    batch: int = 64
    max_completion_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    base: bool = True
    sft: bool = True
    seed: int = 0


@dataclass(frozen=True)
class TrainSettings:
    """One run."""

    recipe: str = "kernelcompare"
    seed: int = 42
    model: ModelSettings = field(default_factory=ModelSettings)
    lora: LoraSettings = field(default_factory=LoraSettings)
    tasks: TaskSettings = field(default_factory=TaskSettings)
    sft: SftSettings = field(default_factory=SftSettings)
    grpo: GrpoSettings = field(default_factory=GrpoSettings)
    reward: RewardSettings = field(default_factory=RewardSettings)
    curriculum: CurriculumSettings = field(default_factory=CurriculumSettings)
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    measure: MeasureSettings = field(default_factory=MeasureSettings)
