"""`kcurate capture`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from kcurate.cli.options import DEFAULT_WORKSPACE, JsonOption, WorkspaceOption, given_path

ProgramArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- PROGRAM [ARGS]...]", help="A program that launches it: run once, recorded."),
]


def capture(
    command: Annotated[
        list[str], typer.Argument(metavar="-- PROGRAM [ARGS]...", help="The program and its arguments.")
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    tree: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Extract this source tree first, and write down its kernels only.",
            parser=given_path,
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Write down kernels whose name matches, wherever they are from."),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARGS", help="Run once more with these arguments, for a second size; may be repeated."
        ),
    ] = None,
    recorder: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="cupti (on a GPU), cudart (stands in for the shared CUDA runtime; no kernel runs), triton "
            "(in Python programs), or auto.",
        ),
    ] = "auto",
    per_kernel: Annotated[
        int, typer.Option(min=1, metavar="N", help="Look at the buffers of so many different launches.")
    ] = 4,
    max_bytes: Annotated[
        int, typer.Option(min=0, metavar="N", help="Bytes of contents to look at in one process.")
    ] = 4 << 30,
    max_buffer_bytes: Annotated[
        int, typer.Option(min=0, metavar="N", help="Bytes of one buffer to look at, from its start.")
    ] = 256 << 20,
    max_seconds: Annotated[
        float, typer.Option(min=0, metavar="S", help="Look at nothing new after so many seconds.")
    ] = 600.0,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="S", help="End the program and its children after so many seconds."),
    ] = None,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", help="Keep the contents of all buffers that were looked at.")
    ] = False,
    run_kernels: Annotated[
        bool,
        typer.Option(
            "--run-kernels",
            help="Without a GPU: run extracted kernels on the emulator, so that later inputs exist.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Run a program that uses CUDA or Triton, and write down launches, so that kernels get problems.

    The program keeps its output and its exit code; what kcurate says goes to stderr.

    Example: kcurate capture -w work --tree src -- ./a.out 1024
    """
    from kcurate.capture.running import Limits
    from kcurate.capture.stage import CaptureConfig, run
    from kcurate.cli import output

    if tree:
        from kcurate.extract.stage import ExtractConfig
        from kcurate.extract.stage import run as extract

        extract(ExtractConfig(paths=tuple(tree), workspace=workspace), note=output.note)
    config = CaptureConfig(
        command=tuple(command),
        workspace=workspace,
        kernel=kernel,
        also=tuple(also or ()),
        recorder=recorder,
        limits=Limits(per_kernel, max_bytes, max_buffer_bytes, max_seconds),
        keep_data=keep_data,
        run_kernels=run_kernels,
        timeout_s=timeout,
    )
    done = run(config, note=output.note)
    with output.on_stderr():
        output.report(done.summary, as_json=json)
    raise typer.Exit(done.exit_code)


def record(program: Sequence[str] | None, workspace: Path) -> None:
    """Run a program of the user's, and write down every kernel that it launches."""
    from kcurate.capture.stage import CaptureConfig, run
    from kcurate.cli import output

    if program:
        run(CaptureConfig(tuple(program), workspace, kernel=""), note=output.note)
