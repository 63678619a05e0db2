"""The session and the examples of docs/cli.md run, and completion works in three shells."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from kcurate import cli
from kcurate.cli.app import build
from kcurate.core import resources

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def session() -> list[tuple[str, list[str]]]:
    """Every command of the session, with the lines that are shown of its output."""
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def test_the_session_runs_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(resources.sources_dir() / "demo", "src")
    for command, shown in session():
        assert cli.run(shlex.split(command)[1:]) == 0, command
        said = [re.sub(r"\d+\.\d s", "T s", line) for line in capsys.readouterr().out.splitlines()]
        for line in shown:
            assert re.sub(r"\d+\.\d s", "T s", line) in said, command


def commands() -> list[tuple[str, Any]]:
    root: Any = typer.main.get_command(build())
    found = []
    for name, command in root.commands.items():
        inner = getattr(command, "commands", None)
        found += [(f"{name} {own}", one) for own, one in inner.items()] if inner else [(name, command)]
    return found


@pytest.mark.parametrize(("name", "command"), commands())
def test_every_help_has_one_example_that_can_be_parsed(
    name: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"^Example: kcurate (.+)$", command.help, re.MULTILINE)
    words = shlex.split(example)
    assert words[: len(name.split())] == name.split()
    context = command.make_context(name.split()[-1], words[len(name.split()) :])
    assert context.params


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_lists_commands_and_options(shell: str) -> None:
    """The shells call the program with the words so far in variables, as their scripts do."""
    words = {"bash": ("kcurate va", "1"), "zsh": ("kcurate va", "1"), "fish": ("kcurate va", "1")}[shell]
    variables = {
        "_KCURATE_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words[0],
        "COMP_CWORD": words[1],
        "_TYPER_COMPLETE_ARGS": words[0],
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [sys.executable, "-m", "kcurate"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "validate" in done.stdout
    assert "extract" not in done.stdout


def test_completion_can_be_installed() -> None:
    options = {name for param in typer.main.get_command(build()).params for name in param.opts}
    assert {"--install-completion", "--show-completion"} <= options
