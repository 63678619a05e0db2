"""`kcurate serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcurate.cli.options import (
    DEFAULT_WORKSPACE,
    BackendOption,
    DatasetOption,
    GpuOption,
    JobsOption,
    JsonOption,
    RayOption,
    WorkspaceOption,
)


def serve(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    backend: BackendOption = "auto",
    gpu: GpuOption = "auto",
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; another machine's callers need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="0: any free port.")] = 8077,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Callers must send this file's token (Authorization: Bearer)."),
    ] = None,
    dataset: DatasetOption = None,
    jobs: JobsOption = 0,
    ray: RayOption = None,
    queue: Annotated[
        int, typer.Option(min=1, metavar="N", help="Answers that may wait; more are refused with 429.")
    ] = 4096,
    max_body: Annotated[
        int, typer.Option(min=1024, metavar="BYTES", help="The largest request; more is refused with 413.")
    ] = 16 << 20,
    json: JsonOption = False,
) -> None:
    """Judge over HTTP: tasks, answers and rewards for anybody's trainer (docs/serving.md).

    Example: kcurate serve --backend emulator --port 8077
    """
    from kcurate.cli import output
    from kcurate.serve.stage import ServeConfig, run

    config = ServeConfig(
        workspace=workspace,
        backend=backend,
        gpu=gpu,
        host=host,
        port=port,
        token_file=token_file,
        dataset=tuple(dataset or ()),
        jobs=jobs,
        ray=ray,
        queue=queue,
        max_body=max_body,
    )
    output.report(run(config, note=output.note), as_json=json)
