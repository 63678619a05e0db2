"""The public Python API: which names, what they take and give, what importing costs, and the notebook."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kcurate import judge as api

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 0.1


def test_these_are_its_names_and_how_they_are_called() -> None:
    """A change here breaks the programs of others: it takes a new major version."""
    called = {name: inspect.signature(getattr(api, name)) for name in api.__all__ if name != "Outcome"}
    assert {name: list(one.parameters) for name, one in called.items()} == {
        "Candidate": [
            "id", "family", "domain", "license", "origin", "techniques", "description", "problem", "slow",
            "fast", "worth",
        ],
        "Judge": ["config"],
        "JudgeConfig": [
            "backend", "gpu", "seed", "sanitize", "timed", "spares", "calibrate", "torch", "workspace",
            "counted", "orders",
        ],
        "Verdict": [
            "candidate", "key", "outcome", "environment", "detail", "side", "log", "checks", "slow", "fast",
            "speedup", "timing_method", "seeds", "wall_s", "stages_s", "sizes", "protocol",
            "sanitizers", "needless",
        ],
        "judge": ["candidate", "config"],
        "judge_many": ["candidates", "config", "gpus", "jobs", "referees"],
        "pairs_dir": [],
        "read_candidate": ["folder"],
    }  # fmt: skip
    assert {"judge", "environment", "close", "usable"} <= set(dir(api.Judge))
    assert set(dir(api)) == set(api.__all__)
    for name, signature in called.items():
        assert inspect.getdoc(getattr(api, name)), name
        assert all(one.annotation is not one.empty for one in signature.parameters.values()), name


def test_the_page_names_all_of_them() -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    rows = [line.split("`")[1].split("(")[0] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(api.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'judges'"):
        api.judges  # noqa: B018


def test_importing_it_is_quick_and_loads_no_torch() -> None:
    """The import by itself, without the start of Python; the least of three, on a busy machine."""
    code = (
        "import sys, time; start = time.perf_counter(); import kcurate.judge; "
        "took = time.perf_counter() - start; "
        "[getattr(kcurate.judge, name) for name in kcurate.judge.__all__]; "
        "assert 'torch' not in sys.modules; print(took)"
    )
    done = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        for _ in range(3)
    ]
    assert min(float(one.stdout) for one in done) < LIMIT_S


@pytest.fixture
def script() -> str:
    """The notebook's cells in turn."""
    notebook = json.loads((ROOT / "examples" / "judge.ipynb").read_text())
    assert notebook["nbformat"] == 4
    cells = [one for one in notebook["cells"] if one["cell_type"] == "code"]
    assert not any(one["outputs"] for one in cells)
    return "\n".join("".join(one["source"]) for one in cells)


def test_the_notebook_imports_what_is_there(script: str) -> None:
    parsed = ast.parse(script)
    for one in ast.walk(parsed):
        if isinstance(one, ast.ImportFrom):
            home = importlib.import_module(str(one.module))
            assert all(hasattr(home, name.name) for name in one.names), ast.unparse(one)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_notebook_runs(script: str, tmp_path: Path) -> None:
    """In one process, from another folder; what it asserts holds."""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == ["correct", "mismatch", "compile_error"], done.stdout
