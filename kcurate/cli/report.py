"""`kcurate report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcurate.cli.options import DEFAULT_WORKSPACE, JsonOption, WorkspaceOption


def report(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    built_in: Annotated[
        bool, typer.Option("--built-in/--no-built-in", help="Include the pairs that ship with kcurate.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Output file; default: report.html in the workspace.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write an HTML page for browsing the pairs: plots, a table, and each pair's diff and verdicts."""
    from kcurate.cli import output
    from kcurate.report.stage import ReportConfig, run

    config = ReportConfig(workspace, built_in, out)
    output.report(run(config, note=output.note), as_json=json)
    output.note(f"open {config.path}")
