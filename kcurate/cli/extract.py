"""`kcurate extract`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcurate.cli.failing import FailOnOption, split
from kcurate.cli.options import (
    DEFAULT_WORKSPACE,
    JobsOption,
    JsonOption,
    LicenceOption,
    WorkspaceOption,
    given_path,
)


def extract(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH", help="Source trees, folders in them, or single files.", parser=given_path
        ),
    ],
    suite: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="auto, parboil, rodinia, generic, or your own manifest (a .toml file)."
        ),
    ] = "auto",
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    jobs: JobsOption = 0,
    include: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Only matching files; may be repeated.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="No matching files; may be repeated.")
    ] = None,
    define: Annotated[
        list[str] | None,
        typer.Option("-D", "--define", metavar="NAME[=VALUE]", help="Define a macro; may be repeated."),
    ] = None,
    include_dir: Annotated[
        list[Path] | None,
        typer.Option("-I", "--include-dir", metavar="DIR", help="A folder of headers; may be repeated."),
    ] = None,
    compile_commands: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="compile_commands.json with each file's flags; default: at the tree's root or in build/.",
        ),
    ] = None,
    min_device_fraction: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="F",
            help="Report files with a smaller share of device code; default: from the suite's manifest.",
        ),
    ] = None,
    compile: Annotated[
        bool | None,
        typer.Option("--compile/--no-compile", help="Compile-check each kernel; default: if NVRTC works."),
    ] = None,
    licence: LicenceOption = None,
    fail_on: FailOnOption = None,
    json: JsonOption = False,
) -> None:
    """Turn any CUDA source tree into self-contained kernels and natural slow/fast pairs.

    Example: kcurate extract parboil/ -w work
    """
    from kcurate.cli import output
    from kcurate.dataset.licences import spdx
    from kcurate.extract.stage import ExtractConfig, run

    config = ExtractConfig(
        paths=tuple(paths),
        workspace=workspace,
        suite=suite,
        jobs=jobs,
        include=tuple(include or ()),
        exclude=tuple(exclude or ()),
        min_device_fraction=min_device_fraction,
        compile=compile,
        define=tuple(define or ()),
        include_dirs=tuple(include_dir or ()),
        compile_commands=compile_commands,
        licence=spdx(licence),
    )
    output.report(run(config, note=output.note), as_json=json, fail_on=split(fail_on))
