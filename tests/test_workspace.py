"""The workspace: paths, and one record a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcurate.errors import InputError
from kcurate.records import Summary
from kcurate.workspace import Workspace


def test_naming_a_workspace_touches_nothing(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "work")
    assert workspace.kernels == tmp_path / "work" / "kernels"
    assert not workspace.root.exists()


def test_a_run_keeps_its_settings_and_its_summary(tmp_path: Path) -> None:
    run = Workspace(tmp_path / "work").start_run("extract", {"jobs": 2})
    assert json.loads((run.folder / "config.json").read_bytes()) == {"stage": "extract", "jobs": 2}
    summary = Summary("extract", {"files": {"extracted": 3}}, 0.5, str(tmp_path))
    assert run.finish(summary) == summary
    assert json.loads((run.folder / "summary.json").read_bytes())["items"] == {"files": {"extracted": 3}}


def test_runs_of_one_second_do_not_collide(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert len({workspace.start_run("extract", {}).folder for _ in range(20)}) == 20


def test_a_file_is_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="choose another --workspace"):
        Workspace(tmp_path / "file").start_run("extract", {})
