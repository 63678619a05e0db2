"""`kcurate capture`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from kcurate.capture.settings import CaptureConfig
from kcurate.cli import output
from kcurate.core.options import Argument, JsonOption, Option
from kcurate.errors import OptionError

ProgramArgument = Annotated[
    tuple[str, ...],
    Argument("A program that launches it: run once, recorded.", metavar="[-- PROGRAM [ARGS]...]"),
]


def capture(
    config: CaptureConfig,
    tree: Annotated[
        tuple[Path, ...],
        Option("Extract this source tree first, and write down its kernels only.", metavar="DIR"),
    ] = (),
    json: JsonOption = False,
) -> None:
    """Run a program that uses CUDA or Triton, and write down launches, so that kernels get problems.

    The program keeps its output and its exit code; what kcurate says goes to stderr.

    Example: kcurate capture -w work --tree src -- ./a.out 1024
    """
    from kcurate.capture.stage import run

    if tree:
        from kcurate.extract.settings import ExtractConfig
        from kcurate.extract.stage import run as extract

        extract(ExtractConfig(tree, config.workspace), note=output.note)
    done = run(config, note=output.note)
    with output.on_stderr():
        output.report(done.summary, as_json=json)
    raise typer.Exit(done.exit_code)


def record(program: Sequence[str], workspace: Path) -> None:
    """Run a program of the user's, and write down every kernel that it launches."""
    if program:
        from kcurate.capture.stage import run
        from kcurate.forms.readers import CUDA_SUFFIXES, suffix_of

        if suffix_of(program[0].partition(":")[0]) in CUDA_SUFFIXES:
            hint = "pair takes two kernels, optimize one; a program comes after --"
            raise OptionError("is no program", where=program[0], hint=hint)
        run(CaptureConfig(tuple(program), workspace, kernel=""), note=output.note)
