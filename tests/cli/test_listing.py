"""`kcurate list`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcurate import cli
from kcurate.core import resources
from kcurate.core.runs import recorded


def test_list_shows_what_a_workspace_holds(
    work: str, printed: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    tree = str(resources.sources_dir() / "demo")
    assert cli.run(["extract", tree, "--no-compile", "-w", work]) == 0
    capsys.readouterr()
    everything = printed("list", "-w", work)["counts"]
    assert everything["kernels"] == {"not_compiled": 8}
    assert everything["pairs"] == {"not_judged": 3, "correct": 1, "mismatch": 1, "timeout": 12}
    assert everything["runs"] == {"finished": 1}
    assert everything["verdicts"]["timeout"] == 12
    of_suite = printed("list", "pairs", "-w", work, "--suite", "demo", "--outcome", "not_judged,stale")
    assert {one["id"] for one in of_suite["results"]} == {
        "demo/blur/blur",
        "demo/dot/dot",
        "demo/transpose/transpose",
    }
    assert cli.run(["list", "pairs", "mism", "-w", work]) == 0
    assert "1 pairs" in capsys.readouterr().out


def test_list_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["list", "-w", str(tmp_path / "none")]) == 1
    assert "no workspace here" in capsys.readouterr().err
    assert cli.run(["list", "pairs", "--outcome", "comfirmed", "-w", str(tmp_path)]) == 2
    assert "did you mean confirmed?" in capsys.readouterr().err
    assert cli.run(["list", "pairs", "-w", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(15), "interrupted"),
        (ValueError("x"), "failed"),
        (None, "unfinished"),
    ],
)
def test_list_runs_says_how_a_run_ended(
    error: BaseException | None, outcome: str, tmp_path: Path, printed: Callable[..., dict[str, Any]]
) -> None:
    try:
        with recorded("validate", tmp_path) as run:
            run.begin()
            if error is not None:
                raise error
    except (KeyboardInterrupt, SystemExit, ValueError):
        pass
    (item,) = printed("list", "runs", "-w", str(tmp_path))["results"]
    assert item["outcome"] == outcome
