"""Gets option values from settings: wires `kcurate.core.config` into the command-line parser.

The parser's own order of precedence is command line, environment, default map, default in the code. Here
each option gets its environment variables, and each command a default map from its workspace's
`kcurate.toml`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from kcurate.cli import ending
from kcurate.core import config
from kcurate.errors import OptionError

# The parser's usage error; typer re-exports only a subclass of it.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
NOT_SETTINGS = frozenset({"help"})


def _options(command: Any) -> dict[str, Any]:
    return {
        param.name: param
        for param in command.params
        if param.param_type_name == "option" and param.name not in NOT_SETTINGS
    }


def commands(group: Any) -> dict[str, dict[str, Any]]:
    """The options of every command, with their defaults; `problem draft` is named `problem_draft`."""
    by_command: dict[str, dict[str, Any]] = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            by_command |= {f"{name}_{inner}": options for inner, options in commands(command).items()}
        else:
            by_command[name] = {option: param.default for option, param in _options(command).items()}
    return by_command


def tree(group: Any) -> config.Options:
    """The names of the options of every command."""
    return {name: frozenset(options) for name, options in commands(group).items()}


class StdoutClosedError(Exception):
    """The reader of stdout is gone (the parser would report `BrokenPipeError` as an ordinary failure)."""


class SettingsGroup(TyperGroup):
    """The command group; rejects unknown `KCURATE_` variables before a command starts."""

    def invoke(self, ctx: Any) -> Any:
        """Check the environment, run the command, then flush its output."""
        config.check_environment(os.environ, tree(self))
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise StdoutClosedError from error
        return result


class SettingsCommand(TyperCommand):
    """A command whose options are settings."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse `args`, falling back to the environment and the workspace's file.

        Raises:
            OptionError: a value from the environment or the file that the option does not allow.
        """
        name = info_name or ""
        if parent is not None and parent.parent is not None:
            name = f"{parent.info_name}_{name}"
        options = _options(self)
        for option, param in options.items():
            param.envvar = config.variables(name, option)
            param.show_envvar = False
        if parent is not None and "--help" not in args and not extra.get("resilient_parsing"):
            probe = super().make_context(info_name, list(args), parent, resilient_parsing=True)
            workspace = probe.params.get("workspace")
            if isinstance(workspace, Path):
                on_file = config.read_file(workspace, tree(parent.find_root().command)).get(name, {})
                extra["default_map"] = _checked(on_file, options, probe, workspace / config.FILE_NAME)
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except UsageError as error:
            raise _at_its_variable(error, name) from None
        if not context.resilient_parsing:
            ending.parsed(name.replace("_", " "), as_json=bool(context.params.get("json")))
        return context


def _at_its_variable(error: Any, command: str) -> Exception:
    """The parser's error about an option, naming the environment variable if the value came from one."""
    option, context = getattr(error, "param", None), getattr(error, "ctx", None)
    source = context.get_parameter_source(option.name) if option is not None and context is not None else None
    if option is None or source is None or source.name != "ENVIRONMENT":
        return error  # type: ignore[no-any-return]
    variable = next(name for name in config.variables(command, option.name) if os.environ.get(name))
    what, where = error.message.removeprefix("Value error, "), f"environment variable {variable}"
    return OptionError(what, where=where, hint=f"for {option.opts[0]}")


def _checked(on_file: dict[str, Any], options: dict[str, Any], context: Any, path: Path) -> dict[str, Any]:
    for key, value in on_file.items():
        if isinstance(value, str) and getattr(options[key], "multiple", False):
            on_file[key] = value = [value]
        try:
            options[key].process_value(context, value)
        except UsageError as error:
            message = getattr(error, "message", str(error))
            raise OptionError(message, where=f"{path}: {key}") from error
    return on_file
