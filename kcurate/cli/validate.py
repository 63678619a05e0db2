"""`kcurate validate`."""

from __future__ import annotations

from typing import Annotated

import typer

from kcurate.cli.failing import FailOnOption, split
from kcurate.cli.options import (
    DEFAULT_WORKSPACE,
    BackendOption,
    GpuOption,
    JobsOption,
    JsonOption,
    PairsArgument,
    RayOption,
    WorkspaceOption,
)


def validate(
    paths: PairsArgument = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    backend: BackendOption = "auto",
    gpu: GpuOption = "auto",
    again: Annotated[
        bool, typer.Option("--again", help="Judge also pairs that already have a final verdict.")
    ] = False,
    sanitize: Annotated[
        bool, typer.Option("--sanitize", help="Also run both sides under compute-sanitizer at small sizes.")
    ] = False,
    trust_python: Annotated[
        bool,
        typer.Option("--trust-python", help="Allow slow sides in PyTorch: trusted code, in a sandbox."),
    ] = False,
    jobs: JobsOption = 0,
    ray: RayOption = None,
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Prove pairs: both sides compute the same, and (on a GPU) one is faster.

    Example: kcurate validate deep-learning/softmax-block-online --gpu 0
    """
    from kcurate.cli import output
    from kcurate.validate.stage import ValidateConfig, run

    config = ValidateConfig(
        workspace=workspace,
        paths=tuple(paths or ()),
        backend=backend,
        gpu=gpu,
        again=again,
        sanitize=sanitize,
        trust_python=trust_python,
        jobs=jobs,
        ray=ray,
    )
    output.report(run(config, note=output.note), as_json=json, fail_on=split(fail_on))
