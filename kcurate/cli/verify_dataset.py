"""`kcurate verify-dataset`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcurate.cli.failing import FailOnOption, split
from kcurate.cli.options import (
    DEFAULT_WORKSPACE,
    BackendOption,
    GpuOption,
    JobsOption,
    JsonOption,
    WorkspaceOption,
)


def verify_dataset(
    dataset: Annotated[
        str, typer.Argument(metavar="DIR|USER/NAME", help="A dataset folder, or a dataset on the Hub.")
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    backend: BackendOption = "auto",
    gpu: GpuOption = "auto",
    rows: Annotated[
        int, typer.Option(min=0, metavar="N", help="Judge N rows, spread over the dataset; 0: all.")
    ] = 0,
    revision: Annotated[
        str | None, typer.Option(metavar="TAG", help="Version on the Hub, such as v1.0.0.")
    ] = None,
    contribute: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write this GPU's verdicts to a file for the dataset's owner."),
    ] = None,
    jobs: JobsOption = 0,
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Judge published rows again on this machine, and list those that drifted.

    Example: kcurate verify-dataset you/pairs --gpu 0 --rows 20
    """
    from kcurate.cli import output
    from kcurate.verify_dataset.stage import VerifyConfig, run

    config = VerifyConfig(dataset, workspace, backend, gpu, jobs, rows, revision, contribute)
    summary = run(config, note=output.note).summary
    output.report(summary, as_json=json, fail_on=split(fail_on))
