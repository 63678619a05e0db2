"""The settings of `kcurate problem draft`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import (
    MAX_TOKENS,
    MAX_USD,
    Argument,
    EffortOption,
    GpuOption,
    JobsOption,
    MaxTokensOption,
    Option,
    PriceOption,
    RayWorkersOption,
    TimeoutOption,
    WorkspaceOption,
)


@dataclass(frozen=True)
class DraftConfig:
    """What to draft. `kernels` are folders, records or ids; empty: the whole workspace.

    `model`: the model that fills in open places, also in files that exist already (None: none). `gpu`: runs
    drafts that the emulator cannot decide.
    """

    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    kernels: Annotated[
        tuple[str, ...],
        Argument(
            "Extracted kernels: folders, ids, or unique prefixes of ids; default: all in the workspace.",
            metavar="KERNEL",
            completes="kernels",
        ),
    ] = ()
    trees: Annotated[
        tuple[Path, ...], Option("Where the sources are; default: where extract found them.", "--tree", "DIR")
    ] = ()
    known: Annotated[bool, Option("Also draft for kernels whose suite has a problem for them.")] = False
    again: Annotated[bool, Option("Overwrite draft files that exist already.")] = False
    model: Annotated[
        str | None,
        Option(
            "Ask this model to fill in what stays open: claude, claude-<version>, "
            "openai:<model>@<base-url>, or FILE.gguf. Its answers are tried like any draft.",
            metavar="NAME",
        ),
    ] = None
    max_usd: Annotated[float | None, replace(MAX_USD, flags="--max-usd --budget-usd")] = None
    price: PriceOption = None
    max_tokens: MaxTokensOption = MAX_TOKENS
    effort: EffortOption = None
    timeout_s: TimeoutOption = None
    gpu: GpuOption = "auto"
    jobs: JobsOption = 1
    ray: RayWorkersOption = None

    @property
    def local(self) -> bool:
        """Whether this process drafts, without workers."""
        return self.jobs == 1 and self.ray is None
