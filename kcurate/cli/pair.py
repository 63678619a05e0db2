"""`kcurate pair`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from kcurate.cli.capture import ProgramArgument, record
from kcurate.cli.options import DEFAULT_WORKSPACE, JsonOption, LicenceOption, WorkspaceOption

KERNEL_METAVAR = "FILE.cu[:KERNEL]"
LAUNCH_HELP = "if nothing launches it: 'GRID, BLOCK' over its parameters, as in <<<GRID, BLOCK>>>."


def pair(
    slow: Annotated[
        str,
        typer.Argument(
            metavar=f"SLOW{KERNEL_METAVAR[4:]}", help="The slow kernel; :KERNEL where its file has several."
        ),
    ],
    fast: Annotated[
        str,
        typer.Argument(metavar=f"FAST{KERNEL_METAVAR[4:]}", help="The fast kernel; both may be in one file."),
    ],
    program: ProgramArgument = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    licence: LicenceOption = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="The pair's folder in pairs/own/.  [default: the kernels' names]"
        ),
    ] = None,
    slow_launch: Annotated[
        str | None, typer.Option(metavar="LAUNCH", help=f"How SLOW is launched, {LAUNCH_HELP}")
    ] = None,
    fast_launch: Annotated[
        str | None, typer.Option(metavar="LAUNCH", help=f"How FAST is launched, {LAUNCH_HELP}")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Make a pair of two kernels of your own, with one problem that both solve alike on the emulator.

    Example: kcurate pair slow.cu fast.cu --licence MIT -w work
    """
    from kcurate.cli import output
    from kcurate.own.pair import PairConfig, run

    record(program, workspace)
    config = PairConfig(slow, fast, workspace, licence, name, slow_launch, fast_launch)
    output.report(run(config, ask=asker(), note=output.note), as_json=json)


def asker() -> Callable[[str, str], str] | None:
    """Asks on the terminal; None if nobody sits there."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    def ask(question: str, value: str) -> str:
        answer: str = typer.prompt(question, default=value, show_default=bool(value), err=True)
        return answer

    return ask
