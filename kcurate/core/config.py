"""The settings file `kcurate.toml` of a workspace, and the names of environment variables.

Every option of every command is a setting of the same name: `--min-device-fraction 0.6` is
`KCURATE_MIN_DEVICE_FRACTION=0.6` (or `KCURATE_EXTRACT_MIN_DEVICE_FRACTION` for one command only), and
`min_device_fraction = 0.6` in the file, either at the top for every command that has it or in a table named
after the command. Options in `PER_COMMAND` mean something different in each command, so they have only the
longer variable and the place in the table. Not covered: the order of precedence (flags, environment, file,
defaults), which the command-line parser applies (`kcurate.cli.settings`).
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kcurate.errors import InputError, OptionError

DEFAULT_WORKSPACE = Path("kcurate-work")
FILE_NAME = "kcurate.toml"
PREFIX = "KCURATE_"
# The file is found through the workspace, so it cannot set the workspace.
NOT_IN_FILE = frozenset({"workspace"})
PER_COMMAND = frozenset(
    {
        "adapter", "again", "built_in", "dry_run", "limit", "model", "out", "samples", "suite", "timeout",
        "tree",
    }
)  # fmt: skip
_ELSE = "every option of `kcurate COMMAND --help` is a setting"

Options = Mapping[str, frozenset[str]]


def variables(command: str, option: str) -> list[str]:
    """The environment variables for one option of one command, most specific first."""
    specific = f"{PREFIX}{command}_{option}".upper().replace("-", "_")
    return [specific] if option in PER_COMMAND else [specific, f"{PREFIX}{option}".upper()]


def check_environment(environment: Iterable[str], options: Options) -> None:
    """Refuse unknown `KCURATE_` variables: a misspelt name would be silently ignored.

    Raises:
        OptionError: there is one; the message names it and the closest known one.
    """
    settings = {
        name for command in options for option in options[command] for name in variables(command, option)
    }
    for name in environment:
        if name.startswith(PREFIX) and name not in settings:
            where, option = f"environment variable {name}", name.removeprefix(PREFIX).lower()
            if option in PER_COMMAND:
                names = ", ".join(variables(command, option)[0] for command in _having(option, options))
                raise OptionError("means something else in each command", where=where, hint=f"set {names}")
            raise OptionError("unknown setting", where=where, hint=near(name, settings))


def read_file(workspace: Path, options: Options) -> dict[str, dict[str, Any]]:
    """The settings in a workspace's `kcurate.toml`, per command; empty if there is no file.

    Raises:
        InputError: unreadable, or not TOML. OptionError: an unknown key (the message names it).
    """
    path = workspace / FILE_NAME
    return _per_command(read_toml(path), options, path) if path.exists() else {}


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as plain data.

    Raises:
        InputError: unreadable, not a regular file (a pipe has no end), or not TOML.
    """
    if path.exists() and not path.is_file():
        raise InputError("not a regular file", where=str(path), hint="check the path")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(path), hint="check the path") from error
    except UnicodeDecodeError as error:
        raise InputError("not TOML: not UTF-8 text", where=str(path), hint="save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {error}", where=str(path)) from error


def _per_command(data: Mapping[str, Any], options: Options, path: Path) -> dict[str, dict[str, Any]]:
    shared: dict[str, Any] = {}
    tables: dict[str, dict[str, Any]] = {}
    everywhere = frozenset[str]().union(*options.values()) - NOT_IN_FILE
    for key, value in data.items():
        if isinstance(value, dict):
            if key not in options:
                raise OptionError(f"unknown table [{key}]", where=str(path), hint=near(key, options))
            names = options[key] - NOT_IN_FILE
            tables[key] = {_known(name, names, path, table=key): value[name] for name in value}
        else:
            name = _known(key, everywhere, path)
            if name in PER_COMMAND:
                hint = f"put it under {', '.join(f'[{command}]' for command in _having(name, options))}"
                raise OptionError(f"{key!r} means something else in each command", where=str(path), hint=hint)
            shared[name] = value
    return {
        command: {name: shared[name] for name in shared if name in names} | tables.get(command, {})
        for command, names in options.items()
    }


def _having(option: str, options: Options) -> list[str]:
    return [command for command in options if option in options[command]]


def _known(key: str, names: Iterable[str], path: Path, *, table: str | None = None) -> str:
    name = key.replace("-", "_")
    if name not in names:
        shown = f"{table}.{key}" if table else key
        raise OptionError(f"unknown key {shown!r}", where=str(path), hint=near(name, names))
    return name


def near(name: str, names: Iterable[str], *, otherwise: str = _ELSE) -> str:
    """A hint for an unknown name: the nearest of `names`, or else `otherwise`."""
    close = difflib.get_close_matches(name, sorted(names), n=1)
    return f"did you mean {close[0]}?" if close else otherwise
