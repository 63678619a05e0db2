"""Options of a command from the settings classes among its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from kcurate.cli.app import COMMANDS, GROUPS
from kcurate.cli.signatures import declared, flattened
from kcurate.core.options import Argument, Option


@dataclass(frozen=True)
class Place:
    """Nothing in it is an option."""

    gpu: int


@dataclass(frozen=True)
class Limits:
    """Settings in settings."""

    most_bytes: Annotated[int, Option("Bytes.", "--max-bytes", "N", min=1)] = 10


@dataclass(frozen=True)
class Config:
    """One field of each kind."""

    files: Annotated[tuple[Path, ...], Argument("Files.", metavar="FILE")]
    names: Annotated[tuple[str, ...], Option("Names.", "--name -n", "NAME")] = ("all",)
    sizes: Annotated[
        Mapping[str, int], Option("Sizes.", "--size", "N", read=lambda texts: dict.fromkeys(texts, 1))
    ] = field(default_factory=dict)
    jobs: Annotated[int, Option("Processes.", default=0)] = 1
    share: Annotated[float, Option("A share.", default=None)] = 0.5
    side: Annotated[Literal["slow", "fast"] | None, Option("The side.")] = None
    again: Annotated[bool, Option("Once more.")] = False
    compile: Annotated[bool | None, Option("Compile.", "--compile/--no-compile")] = None
    limits: Limits = field(default_factory=Limits)
    place: Place = Place(0)
    note: str = "of Python only"


def parsed(*args: str) -> tuple[int, Any]:
    seen: list[Any] = []

    def command(config: Config, extra: Annotated[str, Option("Of the command alone.")] = "none") -> None:
        seen.append((config, extra))

    command.__annotations__ = {"config": Config, "extra": Annotated[str, Option("Of the command alone.")]}
    app = typer.Typer()
    app.command()(flattened(command))
    result = CliRunner().invoke(app, list(args))
    return result.exit_code, seen[0] if seen else result.output


def test_without_options_a_field_has_its_own_default_or_that_of_the_command() -> None:
    assert parsed("a") == (0, (Config((Path("a"),), jobs=0), "none"))


def test_every_kind_of_field_is_set() -> None:
    args = "a b -n x --name y --size m --jobs 3 --share 0.1 --side fast --again --no-compile --max-bytes 7"
    expected = Config(
        (Path("a"), Path("b")),
        ("x", "y"),
        {"m": 1},
        3,
        0.1,
        "fast",
        again=True,
        compile=False,
        limits=Limits(7),
    )
    assert parsed(*args.split(), "--extra", "e") == (0, (expected, "e"))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Missing argument"),
        (["a", "--max-bytes", "0"], "greater than or equal to 1"),
        (["a", "--side", "none"], "'none' is not one of"),
        ([""], "an empty path"),
        (["a", "--note", "x"], "No such option"),
        (["a", "--place", "x"], "No such option"),
    ],
)
def test_what_is_declared_is_checked(args: Sequence[str], said: str) -> None:
    code, output = parsed(*args)
    assert code == 2
    assert said in output


def every_command() -> dict[str, Callable[..., Any]]:
    inner = {f"{name} {own}": run for name, (_, group) in GROUPS.items() for own, run in group.items()}
    return {**COMMANDS, **inner}


@pytest.mark.parametrize("name", every_command())
def test_a_command_declares_no_option_that_its_settings_have(name: str) -> None:
    """An option is declared once: names of options are unique, and none hides a field without declaration."""
    command = every_command()[name]
    names = list(inspect.signature(flattened(command)).parameters)
    assert len(names) == len(set(names))
    for hint in get_type_hints(command).values():
        if isinstance(hint, type) and is_dataclass(hint):
            fields = set(hint.__dataclass_fields__) - {field for field, _, _ in declared(hint)}
            assert not fields & set(names), name
