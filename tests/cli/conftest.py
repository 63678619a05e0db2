"""A judged workspace, and what a command prints as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dataset.making import pair, workspace

from kcurate import cli
from kcurate.core import store
from kcurate.records import Outcome


@pytest.fixture
def work(tmp_path: Path) -> str:
    """Fourteen judged pairs: one correct, one wrong, twelve that took too long."""
    outcomes = [Outcome.CORRECT, Outcome.MISMATCH, *[Outcome.TIMEOUT] * 12]
    made = [(pair(f"demo/{outcome}-{i}", i + 1), outcome) for i, outcome in enumerate(outcomes)]
    return str(workspace(tmp_path / "work", made).root)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    def run(*args: str, code: int = 0) -> dict[str, Any]:
        assert cli.run([*args, "--json"]) == code
        out = capsys.readouterr().out
        assert out.count("\n") == 1
        data = json.loads(out)
        store.check_schema("output", data, where=" ".join(args))
        return dict(data)

    return run
