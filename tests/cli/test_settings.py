"""Settings by command, and `kcurate config show`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from kcurate import cli
from kcurate.cli.app import build
from kcurate.cli.settings import commands, tree
from kcurate.core import config, progress

# Options that several commands have in other words and with the same meaning.
ALIKE = frozenset(
    {
        "gpu",
        "max_tokens",
        "price",
        "private",
        "ray",
        "reward",
        "rounds",
        "row",
        "seed",
        "tasks",
        "tool_calls",
        "workspace",
    }
)


def options_of(group: Any, prefix: str = "") -> list[tuple[str, Any]]:
    found = []
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found += options_of(command, f"{name}_")
        else:
            found += [(f"{prefix}{name}", param) for param in command.params if hasattr(param, "help")]
    return found


def test_what_differs_by_command_has_no_variable_for_all() -> None:
    texts = defaultdict(set)
    for _, param in options_of(typer.main.get_command(build())):
        if param.param_type_name == "option":
            texts[param.name].add((param.metavar, param.help))
    different = {name for name, said in texts.items() if len(said) > 1}
    assert different - ALIKE == config.PER_COMMAND


def test_every_option_of_every_command_has_a_variable_that_a_shell_can_set() -> None:
    for command, options in tree(typer.main.get_command(build())).items():
        for option in options:
            assert all(name.isidentifier() for name in config.variables(command, option)), command


def test_a_variable_for_all_is_refused_where_it_would_mean_different_things(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("KCURATE_MODEL", "claude")
    assert cli.run(["list", "-w", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "means something else in each command" in said
    assert "KCURATE_DEOPT_MODEL" in said
    assert "KCURATE_TRAIN_MODEL" in said
    monkeypatch.delenv("KCURATE_MODEL")
    (tmp_path / "kcurate.toml").write_text('out = "x.html"\n')
    assert cli.run(["list", "-w", str(tmp_path)]) == 2
    assert "put it under [report], [train]" in capsys.readouterr().err


def test_config_show_says_where_each_setting_came_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: Callable[..., dict[str, Any]]
) -> None:
    (tmp_path / "kcurate.toml").write_text('jobs = 3\n[report]\nout = "page.html"\n')
    monkeypatch.setenv("KCURATE_VERIFY_DATASET_ROWS", "7")
    monkeypatch.setenv("KCURATE_BACKEND", "emulator")
    settings = printed("config", "show", "-w", str(tmp_path))["settings"]
    found = {(one["command"], one["option"]): (one["value"], one["source"]) for one in settings}
    file = str(tmp_path / "kcurate.toml")
    assert found["extract", "jobs"] == (3, file)
    assert found["report", "out"] == ("page.html", file)
    assert found["train", "out"] == (None, "default")
    assert found["verify-dataset", "rows"] == ("7", "environment variable KCURATE_VERIFY_DATASET_ROWS")
    assert found["validate", "backend"] == ("emulator", "environment variable KCURATE_BACKEND")
    assert found["validate", "gpu"] == ("auto", "default")
    every = commands(typer.main.get_command(build()))
    assert len(found) == sum(map(len, every.values()))


def test_config_show_of_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["config", "show", "problem draft"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert lines
    assert all(line.split()[0] == "problem_draft" for line in lines)
    assert cli.run(["config", "show", "valdate"]) == 1
    assert "did you mean validate?" in capsys.readouterr().err


def test_one_text_in_the_file_is_enough_for_an_option_that_may_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "kcurate.toml").write_text('[extract]\ninclude = "*.cu"\ndefine = ["A", "B=1"]\n')
    root: Any = typer.main.get_command(build())
    with root.make_context("kcurate", [], resilient_parsing=True) as context:
        extract = root.commands["extract"].make_context("extract", ["src", "-w", str(tmp_path)], context)
    assert extract.params["include"] == ["*.cu"]
    assert extract.params["define"] == ["A", "B=1"]


def test_quiet_is_of_one_command_alone() -> None:
    assert cli.run(["doctor", "--quiet"]) in (0, 1)
    assert not progress.quiet
