"""Options shared by several commands, as annotated types, so that their help is the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kcurate.core.config import DEFAULT_WORKSPACE as DEFAULT_WORKSPACE


def given_path(text: str) -> Path:
    """A path argument; an empty one (an unset variable in a script) would mean the current folder.

    Raises:
        typer.BadParameter: it is empty.
    """
    if not text:
        raise typer.BadParameter("an empty path")
    return Path(text)


WorkspaceOption = Annotated[
    Path,
    typer.Option(
        "--workspace",
        "-w",
        metavar="DIR",
        parser=given_path,
        help="The folder to work in; created if missing.",
    ),
]
JobsOption = Annotated[
    int, typer.Option("--jobs", "-j", min=0, metavar="N", help="Worker processes; 0: one per core.")
]
RayOption = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="A Ray cluster that judges instead of this machine."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
BackendOption = Annotated[
    str,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="cuda, emulator, or auto: the GPU if there is one, else the emulator.",
    ),
]
GpuOption = Annotated[
    str,
    typer.Option(
        "--gpu",
        metavar="LIST",
        help="GPUs to judge on: 0, or 0,1, or all, which must be there; auto: the first, if there is one.",
    ),
]
DatasetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="Pairs: builtin, a folder, or USER/NAME on the Hub; may be repeated.  [default: builtin]",
    ),
]
LicenceOption = Annotated[
    str | None,
    typer.Option(
        "--licence",
        metavar="SPDX",
        help="Licence of your own code, such as MIT, where no manifest says one; a dataset needs one.",
    ),
]
PriceOption = Annotated[
    str | None,
    typer.Option(
        "--price",
        metavar="IN,OUT",
        help="Price in USD per million tokens.  [default: the built-in table]",
    ),
]


PairsArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PAIR...]",
        parser=given_path,
        help="Pairs: paths, folders, ids, or unique prefixes of ids; default: the workspace's.",
    ),
]
