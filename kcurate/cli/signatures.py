"""Makes the options of a command from the settings classes among its parameters (`kcurate.core.options`).

A parameter that is a settings class, or that overrides one, expands to the options of its fields, in order;
nested classes expand likewise. Not covered: where values come from (`kcurate.cli.settings`).
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from kcurate.cli import completing, output
from kcurate.core.options import Argument, Default, Option, Overrides
from kcurate.errors import InputError, OptionError

# What every command has beside its own options.
_SPOKEN = (
    (
        "verbose",
        0,
        Annotated[
            int,
            typer.Option(
                "--verbose",
                "-v",
                count=True,
                help="Also tell each item's outcome as it comes; -vv: all logs.",
            ),
        ],
    ),
    (
        "quiet",
        False,
        Annotated[bool, typer.Option("--quiet", "-q", help="Tell nothing but errors on stderr.")],
    ),
)


def given_path(text: str) -> Path:
    """A path argument; an empty one (an unset variable in a script) would mean the current folder.

    Raises:
        typer.BadParameter: it is empty.
    """
    if not text:
        raise typer.BadParameter("an empty path")
    return Path(text)


def flattened(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command in the form that Typer reads: one parameter per option; a call reassembles the settings."""
    hints = get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        settings = _overridden(hints[name]) or hints[name]
        if _is_settings(settings):
            parameters += _of_class(settings)
        else:
            parameters.append(_parameter(name, hints[name], parameter.default))

    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, default, annotation in _SPOKEN
    ]

    @functools.wraps(command)
    def with_options(**values: Any) -> Any:
        output.speak(values["verbose"], quiet=values["quiet"])
        arguments = {name: _value(name, hint, values) for name, hint in hints.items()}
        return command(**{name: value for name, value in arguments.items() if value is not None})

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def option_of(hint: Any) -> Option | None:
    """The `Option` in an annotation; None if it has none."""
    declared = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Option)]
    return declared[0] if declared else None


def declared(settings: type[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Name, annotation and default of each field that a command sets, or that is a settings class itself."""
    hints = get_type_hints(settings, include_extras=True)
    for field in fields(settings):
        if option_of(hints[field.name]) or _is_settings(hints[field.name]):
            required = field.default is MISSING and field.default_factory is MISSING
            default = None if field.default is MISSING else field.default
            default = inspect.Parameter.empty if required else default
            yield field.name, hints[field.name], default


def _of_class(settings: type[Any]) -> Iterator[inspect.Parameter]:
    for name, hint, default in declared(settings):
        if _is_settings(hint):
            yield from _of_class(hint)
        else:
            yield _parameter(name, hint, default)


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    option = option_of(hint)
    if option is not None:
        default = default if option.default is Default.SAME else option.default
        kind, default = _on_the_command_line(get_args(hint)[0], option, default)
        name, hint = option.name(name), Annotated[kind, _of_typer(option, kind, name)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _on_the_command_line(kind: Any, option: Option, default: Any) -> tuple[Any, Any]:
    """Type and default for the parser: a repeatable option is a list, or None."""
    many: Any = None
    if option.read:
        many = list[str]
    elif get_origin(kind) is tuple:
        many = list[get_args(kind)[0]]  # type: ignore[misc]
    if default is inspect.Parameter.empty:
        return many or kind, default
    if many is not None:
        return many | None, None
    return (kind | None if default is None else kind), default


def _of_typer(option: Option, kind: Any, field: str) -> Any:
    offers = completing.OFFERS[option.completes] if option.completes else None
    parser = given_path if Path in (kind, *get_args(kind), *map(_inner, get_args(kind))) else None
    if isinstance(option, Argument):
        return typer.Argument(
            help=option.help,
            metavar=option.metavar,
            parser=parser,
            show_default=option.show_default,
            autocompletion=offers,
        )
    flags = option.flags.split() or [f"--{field.replace('_', '-')}"]
    return typer.Option(
        *flags,
        help=option.help,
        metavar=option.metavar,
        min=option.min,
        max=option.max,
        parser=parser,
        autocompletion=offers,
    )


def _is_settings(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint) and any(True for _ in declared(hint))


def _inner(kind: Any) -> Any:
    return next(iter(get_args(kind)), None)


def _value(name: str, hint: Any, values: Mapping[str, Any]) -> Any:
    """The argument of a command's parameter: an object of a settings class, or the value as it was parsed."""
    if _is_settings(hint):
        return _object(hint, values)
    if settings := _overridden(hint):
        return _given(settings, values)
    option = option_of(hint)
    value = values[option.name(name) if option else name]
    return _field_value(hint, option, value, option.name(name)) if option else value


def _check(option: Option, value: Any, name: str) -> None:
    """Refuse a value that the option cannot have.

    Raises:
        OptionError: its check says so, and names no place of its own.
    """
    module, _, function = option.check.partition(":")
    try:
        getattr(importlib.import_module(module), function)(value)
    except InputError as error:
        if error.where is not None:
            raise
        flag = (option.flags.split() or [f"--{name.replace('_', '-')}"])[0]
        raise OptionError(error.what, where=flag, hint=error.hint) from error


def _object(settings: Any, values: Mapping[str, Any]) -> Any:
    set_fields = {name: _value(name, hint, values) for name, hint, _ in declared(settings)}
    return settings(**{name: value for name, value in set_fields.items() if value is not None})


def _given(settings: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that differ from the defaults of the command, nested like the class."""
    nested: dict[str, Any] = {}
    for name, hint, default in declared(settings):
        if _is_settings(hint):
            if inside := _given(hint, values):
                nested[name] = inside
        elif (value := _value(name, hint, values)) != _parameter(name, hint, default).default:
            nested[name] = value
    return nested


def _overridden(hint: Any) -> Any:
    """The settings class that a parameter overrides, if it does."""
    marks = getattr(hint, "__metadata__", ())
    return next((mark.settings for mark in marks if isinstance(mark, Overrides)), None)


def _field_value(hint: Any, option: Option, value: Any, name: str) -> Any:
    if value is None or value == []:  # not said: the field has its own default
        return None
    if option.check:
        _check(option, value, name)
    if option.read:
        return option.read(value)
    return tuple(value) if get_origin(get_args(hint)[0]) is tuple else value
