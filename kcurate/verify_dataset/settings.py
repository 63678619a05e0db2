"""The settings of `kcurate verify-dataset`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import Argument, BackendOption, GpuOption, JobsOption, Option, WorkspaceOption


@dataclass(frozen=True)
class VerifyConfig:
    """Which dataset to judge again, and where."""

    dataset: Annotated[str, Argument("A dataset folder, or a dataset on the Hub.", metavar="DIR|USER/NAME")]
    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    backend: BackendOption = "auto"
    gpu: GpuOption = "auto"
    rows: Annotated[int, Option("Judge N rows, spread over the dataset; 0: all.", metavar="N", min=0)] = 0
    revision: Annotated[str | None, Option("Version on the Hub, such as v1.0.0.", metavar="TAG")] = None
    contribute: Annotated[
        Path | None, Option("Write this GPU's verdicts to a file for the dataset's owner.", metavar="FILE")
    ] = None
    jobs: JobsOption = 0
