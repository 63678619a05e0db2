"""The settings of `kcurate serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import (
    BackendOption,
    DatasetOption,
    GpuOption,
    JobsOption,
    Option,
    RayOption,
    WorkspaceOption,
)


@dataclass(frozen=True)
class ServeConfig:
    """Where to listen and judge. `dataset`: where tasks come from. `jobs` 0: chosen automatically."""

    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    backend: BackendOption = "auto"
    gpu: GpuOption = "auto"
    host: Annotated[
        str, Option("Where to listen; another machine's callers need a token.", metavar="ADDRESS")
    ] = "127.0.0.1"
    port: Annotated[int, Option("0: any free port.", metavar="N", min=0, max=65535)] = 8077
    token_file: Annotated[
        Path | None, Option("Callers must send this file's token (Authorization: Bearer).", metavar="FILE")
    ] = None
    dataset: DatasetOption = ()
    jobs: JobsOption = 0
    ray: RayOption = None
    queue: Annotated[int, Option("Answers that may wait; more are refused with 429.", metavar="N", min=1)] = (
        4096
    )
    max_body: Annotated[
        int, Option("The largest request; more is refused with 413.", metavar="BYTES", min=1024)
    ] = 16 << 20
