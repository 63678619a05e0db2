"""The settings of `kcurate report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import Argument, Option, WorkspaceOption

FILE = "report.html"


@dataclass(frozen=True)
class ReportConfig:
    """The pairs to show, and the file to write."""

    workspace: WorkspaceOption = DEFAULT_WORKSPACE
    built_in: Annotated[
        bool, Option("Also show the pairs that ship with kcurate.", "--built-in/--no-built-in")
    ] = False
    out: Annotated[Path | None, Option(f"Output file; default: {FILE} in the workspace.", metavar="FILE")] = (
        None
    )
    pairs: Annotated[
        tuple[str, ...],
        Argument(
            "Only these pairs: paths, ids, or unique prefixes of ids; default: the workspace's.",
            metavar="[PAIR...]",
            completes="pairs",
        ),
    ] = ()

    @property
    def path(self) -> Path:
        """The file to write."""
        return self.out or self.workspace / FILE
