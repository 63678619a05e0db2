"""`kcurate verify-dataset`."""

from __future__ import annotations

from typing import Annotated

import typer

from kcurate.cli.options import DEFAULT_WORKSPACE, BackendOption, JobsOption, JsonOption, WorkspaceOption


def verify_dataset(
    dataset: Annotated[
        str, typer.Argument(metavar="DIR|USER/NAME", help="A dataset folder, or a dataset on the Hub.")
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    backend: BackendOption = "auto",
    gpu: Annotated[int, typer.Option(min=0, metavar="N", help="The GPU to judge on.")] = 0,
    rows: Annotated[
        int, typer.Option(min=0, metavar="N", help="Judge this many rows, spread over the set; 0: all.")
    ] = 0,
    revision: Annotated[
        str | None, typer.Option(metavar="TAG", help="Version on the Hub, such as v1.0.0.")
    ] = None,
    jobs: JobsOption = 0,
    json: JsonOption = False,
) -> None:
    """Judge published rows again on this machine, and list those that drifted."""
    from kcurate.cli import output
    from kcurate.verify_dataset.stage import VerifyConfig, run, shown

    config = VerifyConfig(dataset, workspace, backend, gpu, jobs, rows, revision)
    report = run(config, note=output.note)
    if report.drifted and not json:
        columns = ("row", "drift", "device", "published", "now")
        output.table("drifted", columns, shown(report.drifted))
    output.report(report.summary, as_json=json)
