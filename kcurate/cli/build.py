"""`kcurate build`."""

from __future__ import annotations

from typing import Annotated

import typer

from kcurate.cli.options import DEFAULT_WORKSPACE, JsonOption, WorkspaceOption


def build(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    built_in: Annotated[
        bool, typer.Option("--built-in/--no-built-in", help="Also take the pairs that ship with kcurate.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Write the judged pairs of the workspace as a dataset (Parquet) into its dataset/ folder."""
    from kcurate.cli import output
    from kcurate.dataset.stage import BuildConfig, run

    output.report(run(BuildConfig(workspace, built_in)), as_json=json)
