"""Options of a command from the settings classes among its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from kcurate.cli.app import COMMANDS, GROUPS
from kcurate.cli.signatures import flattened
from kcurate.core.options import Argument, Option, Overrides


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
    gpus: Annotated[
        tuple[int, ...],
        Option("GPUs.", metavar="LIST", read=lambda texts: tuple(map(int, texts[0].split(",")))),
    ] = ()
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

    def command(config: Config, extra: Annotated[tuple[str, ...], Option("More.")] = ()) -> None:
        seen.append((config, extra))

    command.__annotations__ = {"config": Config, "extra": Annotated[tuple[str, ...], Option("More.")]}
    app = typer.Typer()
    app.command()(flattened(command))
    result = CliRunner().invoke(app, list(args))
    return result.exit_code, seen[0] if seen else result.output


def test_without_options_a_field_has_its_own_default_or_that_of_the_command() -> None:
    assert parsed("a") == (0, (Config((Path("a"),), jobs=0), ()))


def test_every_kind_of_field_is_set() -> None:
    args = "a b -n x --name y --size m --gpus 0,1 --jobs 3 --share 0.1 --side fast --again --no-compile"
    expected = Config(
        (Path("a"), Path("b")),
        ("x", "y"),
        {"m": 1},
        (0, 1),
        3,
        0.1,
        "fast",
        again=True,
        compile=False,
        limits=Limits(7),
    )
    assert parsed(*args.split(), "--max-bytes", "7", "--extra", "e") == (0, (expected, ("e",)))


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
    names = list(inspect.signature(flattened(every_command()[name])).parameters)
    assert len(names) == len(set(names))


def test_what_overrides_settings_is_nested_like_them_and_only_what_was_given() -> None:
    seen: list[Any] = []

    def command(options: Annotated[dict[str, Any], Overrides(Config)]) -> None:
        seen.append(options)

    command.__annotations__ = {"options": Annotated[dict[str, Any], Overrides(Config)]}
    app = typer.Typer()
    app.command()(flattened(command))
    for args in (["a", "--jobs", "0"], ["a", "--jobs", "2", "--max-bytes", "7", "--gpus", "1"]):
        assert CliRunner().invoke(app, args).exit_code == 0
    files = {"files": (Path("a"),)}
    assert seen == [files, {**files, "jobs": 2, "gpus": (1,), "limits": {"most_bytes": 7}}]
