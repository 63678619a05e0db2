"""`kcurate deopt`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcurate.cli.options import DEFAULT_WORKSPACE, JsonOption, WorkspaceOption


def deopt(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH", help="Folders with kernels or pairs; default: the workspace's kernels."
        ),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    rules: Annotated[
        list[str] | None,
        typer.Option("--rules", metavar="NAME", help="Only this rule; may be repeated.  [default: all]"),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write slow variants of fast kernels, each without one technique, as candidates to validate."""
    from kcurate.cli import output
    from kcurate.deopt.stage import DeoptConfig, run

    config = DeoptConfig(workspace, tuple(paths or ()), tuple(rules or ()))
    output.report(run(config), as_json=json)
