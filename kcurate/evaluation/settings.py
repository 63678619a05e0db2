"""The settings of `kcurate eval`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import (
    MAX_TOKENS,
    BackendOption,
    DatasetOption,
    EffortOption,
    GpuOption,
    JobsOption,
    MaxUsdOption,
    Option,
    PriceOption,
    TimeoutOption,
    WorkspaceOption,
)

Step = Literal["generate", "judge", "score"]
STEPS: tuple[Step, ...] = ("generate", "judge", "score")
Split = Literal["held_out", "train", "all"]


@dataclass(frozen=True)
class Evaluated:
    """What is evaluated; the content of `eval.json`.

    `model`: a model behind an API is named as in `kcurate deopt`, others as in `kcurate train`; empty if the
    folder names it. `gpu`: what prompts name; None: the GPU of each pair's verdict. `sampling`, `merged`: as
    in `kcurate.local_models.settings.ModelSettings`.
    """

    model: Annotated[
        str,
        Option(
            "claude, claude-<version>, openai:<model>@<base-url>, or for transformers a Hub name or a "
            "folder.",
            metavar="NAME",
            default=None,
        ),
    ] = ""
    adapter: Annotated[str | None, Option("A LoRA adapter of a model in this process.", metavar="DIR")] = None
    tasks: Annotated[
        str,
        Option(
            "pairs, kernelbench[:PATH], or minted: the problems, proved or not, that kcurate mint wrote into "
            "--dataset.",
            metavar="KIND",
        ),
    ] = "pairs"
    level: Annotated[int, Option("KernelBench's level.", metavar="N", min=1, max=3)] = 1
    dataset: DatasetOption = ("builtin",)
    split: Annotated[
        Split | None,
        Option("Which tasks, as kcurate train splits them.  [default: pairs: held_out; else all]"),
    ] = None
    held_out: Annotated[float, Option("At least this share of the tasks is held out.", metavar="SHARE")] = 0.2
    split_seed: Annotated[int, Option("Seed of the split.", metavar="N", min=0)] = 42
    untimed: Annotated[bool, Option("Also pairs that were never timed on a GPU.")] = False
    brief: Annotated[bool, Option("Prompts with the short rules.")] = False
    limit: Annotated[int, Option("At most this many tasks; 0: all.", metavar="N", min=0)] = 0
    samples: Annotated[int, Option("Samples per task.", metavar="N", min=1)] = 8
    turns: Annotated[int, Option("Turns per sample, with feedback between them.", metavar="N", min=1)] = 1
    max_tokens: Annotated[
        int | None,
        Option("Longest answer.  [default: 4096; Claude: 32000, thinking included]", metavar="N", min=1),
    ] = None
    effort: EffortOption = None
    tool_calls: Annotated[
        int,
        Option("Claude: tool calls (compile, run_tests, time) for an answer; 0: none.", metavar="N", min=0),
    ] = 0
    temperature: Annotated[
        float | None, Option("[default: the server's own; transformers: 1]", metavar="T")
    ] = None
    top_p: Annotated[float | None, Option("[default: the server's own; transformers: 1]", metavar="P")] = None
    seed: Annotated[int, Option("Seed of transformers' sampling.", metavar="N", min=0)] = 0
    reward: Annotated[
        str,
        Option(
            "A scheme, or MODULE:FUNCTION (docs/rewards.md).",
            metavar="NAME",
            check="kcurate.reward.own_reward:check_name",
        ),
    ] = "pairs"
    gpu: str | None = None
    allow_taught: Annotated[bool, Option("Mark tasks that the adapter was taught; else refuse.")] = False
    sampling: Annotated[
        Literal["plain", "static", "continuous"],
        Option("transformers: plain generate, a static cache, or continuous batching."),
    ] = "plain"
    merged: Annotated[bool, Option("transformers: merge the adapter into the weights.")] = False
    protocol: Annotated[
        Literal["kcurate", "kernelbench"],
        Option("kernelbench: answers are a ModelNew, judged by the checkout's own evaluator."),
    ] = "kcurate"

    @property
    def of_claude(self) -> bool:
        """Whether the model is a Claude model behind its API."""
        return self.model == "claude" or self.model.startswith("claude-")

    @property
    def longest(self) -> int:
        """The longest answer, in tokens. Claude's thinking counts, and may be most of it."""
        return self.max_tokens or (MAX_TOKENS if self.of_claude else 4096)


@dataclass(frozen=True)
class EvalConfig:
    """One call. `folder` None: a new one in the workspace. `evaluated` None: read from the folder.

    `reward`: named by the caller; if the folder names a function, it is imported only if both are the same.
    `sampler`: a model object of the caller (`sampling.Sampler`), used instead of the model in `evaluated`.
    """

    folder: Annotated[Path | None, Option("[default: runs/eval-<time> in the workspace]", "--out", "DIR")] = (
        None
    )
    evaluated: Evaluated | None = None
    steps: Sequence[Step] = STEPS
    name: Annotated[
        str | None, Option("Name of the row of scores.  [default: the folder's]", "--row", "NAME")
    ] = None
    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    batch: Annotated[int, Option("Prompts at a time.", "--batch-size", "N", min=1)] = 64
    concurrency: Annotated[int, Option("Models: concurrent requests.", metavar="N", min=1, max=256)] = 8
    max_usd: MaxUsdOption = None
    price: PriceOption = None
    timeout_s: TimeoutOption = None
    backend: BackendOption = "auto"
    gpu: GpuOption = "auto"
    jobs: JobsOption = 0
    reward: str = "pairs"
    sampler: Any = None
