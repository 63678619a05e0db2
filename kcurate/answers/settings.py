"""The settings of `kcurate import`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import Argument, JobsOption, LicenceOption, Option, WorkspaceOption


@dataclass(frozen=True)
class ImportConfig:
    """The rows to read, and their licence and origin."""

    format: Annotated[
        str, Argument("kernelbench, cuda-engineer, kernelbook or robust-kbench.", metavar="FORMAT")
    ]
    path: Annotated[Path, Argument("A file of rows, or a folder.", metavar="PATH")]
    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    suite: Annotated[
        str | None, Option("Name of the collection, the first part of ids; default: PATH's.", metavar="NAME")
    ] = None
    licence: LicenceOption = None
    url: Annotated[str | None, Option("Where the rows come from, for attribution.", metavar="URL")] = None
    limit: Annotated[int | None, Option("Read at most N rows.", metavar="N", min=1)] = None
    seconds: Annotated[
        float, Option("Longest time for an answer's runs; compiling it is not counted.", metavar="S", min=1)
    ] = 60.0
    jobs: JobsOption = 0
