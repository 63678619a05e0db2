"""README's path as a script reads it (`benchmarks/walk.py`); the script itself runs it."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks import walk


def test_the_path_of_readme_is_at_most_eight_commands_and_needs_nothing_else() -> None:
    commands = walk.lines()
    assert len(commands) <= 8
    assert commands[0].endswith("pip install .") and commands[-1] == "kcurate report"
    assert not any(command.startswith("#") or "  #" in command for command in commands)


def test_lines_run_in_one_shell_and_the_first_that_fails_is_the_last(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    rows = walk.walk(["cd inside", "cat", "test -d ../inside", "false", "true"], tmp_path, dict(os.environ))
    assert [row["exit"] for row in rows] == [0, 0, 0, 1]
