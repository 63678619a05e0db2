"""A text that an option cannot have is wrong usage: exit code 2, and the option is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer

from kcurate import cli
from kcurate.cli.app import build

# Arguments that a command cannot do without.
NEEDED = {
    "extract": ("tree",),
    "capture": ("--", "true"),
    "pair": ("slow.cu", "fast.cu"),
    "optimize": ("kernel.cu", "--model", "claude"),
    "tune": ("demo/a",),
    "eval": ("--model", "m"),
    "import": ("kernelbench", "rows.jsonl"),
    "verify-dataset": ("rows",),
}
# A text that the option cannot have, which is known before the command does anything.
BAD = {
    "--fail-on": "zz",
    "--gpu": "x",
    "--judge-gpus": "x",
    "--kinds": "zz",
    "--price": "x",
    "--push": "ab",
    "--repo": "ab",
    "--reward": "zz",
    "--rules": "zz",
    "--types": "zz",
    "-D": "1=2",
    "--value": "zz",
    "--outcome": "zz",
}
# Options whose text is read beside something else (kernels, a recipe, a server), with an error of their own.
LATER = {
    *("--fast-launch", "--slow-launch", "--launch", "--host", "--judge", "--kernel", "--model", "--name"),
    *("--recipe", "--report", "--set", "--since", "--suite", "--tasks", "--techniques", "--version"),
}
# Options that may have any text, and those that name something elsewhere that may be absent (exit code 1).
ANY = {
    "--also",
    "--allow-licence",
    "--exclude",
    "--shards",
    "--column",
    "--include",
    "--licence",
    "--row",
    "--url",
}
NAMES = {"--adapter", "--dataset", "--ray", "--revision"}


def commands() -> Iterator[tuple[str, Any]]:
    whole: Any = typer.main.get_command(build())
    for name, command in whole.commands.items():
        for inner, leaf in getattr(command, "commands", {"": command}).items():
            yield f"{name} {inner}".strip(), leaf


def leaves(annotation: Any) -> set[Any]:
    if get_origin(annotation) is Literal or not get_args(annotation):
        return {annotation}
    return set[Any]().union(*map(leaves, get_args(annotation)))


def texts() -> list[tuple[str, str]]:
    """Every command and each of its options that takes any text as far as the parser knows."""
    return [
        (name, parameter.opts[0])
        for name, command in commands()
        for parameter in command.params
        if parameter.param_type_name == "option" and str in leaves(parameter.type_descriptor.annotation)
    ]


def test_every_option_is_accounted_for() -> None:
    assert {option for _, option in texts()} == {*BAD, *LATER, *ANY, *NAMES}


@pytest.mark.parametrize(("command", "option"), [(name, option) for name, option in texts() if option in BAD])
def test_a_text_that_an_option_cannot_have_is_wrong_usage(
    command: str,
    option: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    argument = ("pairs",) if command == "list" else NEEDED.get(command, ())
    code = cli.run([*command.split(), option, BAD[option], *argument])
    said = capsys.readouterr().err.splitlines()[-1]
    assert (code, option in said) == (2, True), said
    assert not any(tmp_path.iterdir())


def test_a_bad_text_in_the_settings_is_wrong_usage_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCURATE_GPU", "x")
    assert cli.run(["validate", "-w", str(tmp_path)]) == 2
    assert "--gpu: not a list of GPUs: 'x'" in capsys.readouterr().err
