"""`kcurate profile`."""

from __future__ import annotations

from typing import Annotated

import typer

from kcurate.cli.failing import FailOnOption, split
from kcurate.cli.options import DEFAULT_WORKSPACE, GpuOption, JsonOption, PairsArgument, WorkspaceOption


def profile(
    paths: PairsArgument = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    built_in: Annotated[bool, typer.Option("--built-in", help="Also the pairs of the package.")] = False,
    gpu: GpuOption = "auto",
    again: Annotated[
        bool, typer.Option("--again", help="Profile also sides that have a profile of this device.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="At most so many pairs; 0: all.")
    ] = 0,
    check_labels: Annotated[
        bool,
        typer.Option(
            "--check-labels", help="Count nothing; list techniques whose counter does not move the right way."
        ),
    ] = False,
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Count what both sides of confirmed pairs do on a GPU, with Nsight Compute (ncu).

    Example: kcurate profile deep-learning/softmax-block-online --gpu 0
    """
    from kcurate.cli import output
    from kcurate.profiling import label_check, stage

    config = stage.ProfileConfig(
        workspace=workspace,
        paths=tuple(paths or ()),
        built_in=built_in,
        gpu=gpu,
        again=again,
        limit=limit,
    )
    run = label_check.check if check_labels else stage.run
    output.report(run(config, note=output.note), as_json=json, fail_on=split(fail_on))
