"""`kcurate config show`: every setting, its value, and where it came from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from kcurate.cli import ending, output
from kcurate.cli.settings import commands, tree
from kcurate.core import config
from kcurate.core.config import DEFAULT_WORKSPACE
from kcurate.core.options import JsonOption, WorkspaceOption
from kcurate.errors import InputError


def show(
    context: typer.Context,
    command: Annotated[
        str,
        typer.Argument(
            metavar="[COMMAND]",
            help="Only this command, such as validate or problem_draft.",
            show_default=False,
        ),
    ] = "",
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    json: JsonOption = False,
) -> None:
    """Print every setting, its value, and where it came from: environment, file or default.

    Example: kcurate config show validate
    """
    root: Any = context.find_root().command
    wanted = command.replace(" ", "_")
    known = commands(root)
    if wanted and wanted not in known:
        raise InputError(f"no command {command!r}", where="config show", hint=config.near(wanted, known))
    on_file = config.read_file(workspace, tree(root))
    path = str(workspace / config.FILE_NAME)
    rows = [
        (name, option, *_setting(name, option, default, on_file.get(name, {}), path))
        for name, options in known.items()
        for option, default in options.items()
        if wanted in ("", name)
    ]
    if json:
        keys = ("command", "option", "value", "source")
        ending.listed("config show", (), {"settings": [dict(zip(keys, row, strict=True)) for row in rows]})
    else:
        output.table("settings", ("command", "option", "value", "from"), rows)


def _setting(
    command: str, option: str, default: Any, on_file: Mapping[str, Any], path: str
) -> tuple[Any, str]:
    """The value of an option that is not on the command line, and where it came from."""
    for name in config.variables(command, option):
        if os.environ.get(name):
            return os.environ[name], f"environment variable {name}"
    if option in on_file:
        return on_file[option], path
    return (default if isinstance(default, bool | int | float | None) else str(default)), "default"


COMMANDS: Mapping[str, Callable[..., Any]] = {"show": show}
