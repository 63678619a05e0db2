"""Every command that works in a workspace leaves one run folder: settings, summary, log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcurate.cli import run
from kcurate.core import resources


def test_every_stage_leaves_its_settings_summary_and_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, work = str(resources.sources_dir() / "demo"), str(tmp_path / "work")
    stages = {
        "extract": ["extract", tree, "--no-compile"],
        "problem-draft": ["problem", "draft"],
        "deopt": ["deopt", "--rules", "restrict"],
        "build": ["build"],
        "report": ["report"],
    }
    for stage, arguments in stages.items():
        code = 1 if stage == "build" else 0  # nothing is judged, so no pair is a row
        assert run([*arguments, "--workspace", work, "--json"]) == code, stage
        said = capsys.readouterr()
        (folder,) = (tmp_path / "work" / "runs").glob(f"{stage}-*")
        assert json.loads((folder / "config.json").read_bytes())["workspace"] == work
        printed = json.loads(said.out)
        assert (printed.pop("error", None) is None) == (code == 0)
        assert json.loads((folder / "summary.json").read_bytes()) == printed
        log = (folder / "log").read_text()
        assert log.splitlines()[-1].endswith(" finished")
        if stage == "problem-draft":
            assert said.err, "it says what became of each kernel"
            assert all(line in log for line in said.err.splitlines())


def test_a_run_that_fails_says_why_in_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "problem.toml"
    assert run(["problem", "check", str(file), "--workspace", str(tmp_path / "work")]) == 1
    (folder,) = (tmp_path / "work" / "runs").iterdir()
    last = (folder / "log").read_text().splitlines()[-1]
    assert last.startswith("kcurate.errors.InputError: ")
    assert last.removeprefix("kcurate.errors.InputError: ") in capsys.readouterr().err
