"""`kcurate push`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcurate.cli.options import DEFAULT_WORKSPACE, JsonOption, WorkspaceOption, given_path


def push(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    repo: Annotated[
        str | None, typer.Option(metavar="USER/NAME", help="The dataset on the Hub; created if missing.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=given_path, help="Publish into this folder instead of the Hub."),
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Create the repository as private; refuse a public one.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and compare only; change nothing.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Publish the built dataset: one commit, tagged with its version and loaded back.

    Example: kcurate push --repo you/pairs --dry-run
    """
    from kcurate.cli import output
    from kcurate.dataset.push import PushConfig, run

    config = PushConfig(workspace, repo, to, private, dry_run)
    output.report(run(config, note=output.note), as_json=json)
