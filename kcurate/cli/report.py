"""`kcurate report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcurate.cli.failing import FailOnOption, split
from kcurate.cli.options import DEFAULT_WORKSPACE, JsonOption, WorkspaceOption


def report(
    pairs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAIR...]",
            help="Only these pairs: paths, ids, or unique prefixes of ids; default: the workspace's.",
        ),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    built_in: Annotated[
        bool, typer.Option("--built-in/--no-built-in", help="Also show the pairs that ship with kcurate.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Output file; default: report.html in the workspace.")
    ] = None,
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Write one HTML page of the pairs: plots, a table, and every pair's diff and verdicts.

    Example: kcurate report --built-in --out page.html
    """
    from kcurate.cli import output
    from kcurate.report.stage import ReportConfig, run

    config = ReportConfig(workspace, built_in, out, tuple(pairs or ()))
    summary = run(config, note=output.note)
    output.note(f"open {config.path}")
    output.report(summary, as_json=json, fail_on=split(fail_on))
