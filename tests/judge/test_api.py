"""The public Python API: which names, what they take and give, what importing costs, and the notebook."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kcurate import judge as api
from tools.python_reference import render

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
            "counted", "orders", "vouched", "minimal",
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
    assert {"judge", "environment", "close", "usable", "__enter__", "__exit__"} <= set(dir(api.Judge))
    assert set(dir(api)) == set(api.__all__)
    for name, signature in called.items():
        assert inspect.getdoc(getattr(api, name)), name
        assert all(one.annotation is not one.empty for one in signature.parameters.values()), name


def test_the_page_names_all_of_them() -> None:
    page = (ROOT / "docs" / "python.md").read_text().partition("## Below it")[2]
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


def ran(script: str, folder: Path) -> list[str]:
    """What a script prints, run in one process from another folder; nothing goes to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_notebook_runs(script: str, tmp_path: Path) -> None:
    """What it asserts holds, and the plots are there."""
    pytest.importorskip("matplotlib")
    assert ran(script, tmp_path)[-5:] == ["correct", *["mismatch"] * 3, "compile_error"]
    assert {path.name for path in tmp_path.iterdir()} == {"stages.png", "speedups.png"}


def shown(page: str) -> list[str]:
    """The Python of a page, block by block."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def test_two_strings_become_a_verdict_in_ten_lines(tmp_path: Path) -> None:
    """README's and the introduction's first block, as it stands."""
    (block,) = shown("README.md")
    assert block == shown("docs/python.md")[0] and sum(map(bool, block.splitlines())) <= 10
    (line,) = ran(block, tmp_path)
    assert re.match(
        r"<Verdict (correct: both sides agree; the emulator|confirmed, [\d.]+ times as fast)", line
    )


@pytest.mark.timeout(200)
def test_what_the_page_shows_runs(tmp_path: Path) -> None:
    lines = ran("\n".join(shown("docs/python.md")), tmp_path)
    assert lines[1:3] == ["correct", "mismatch"] and lines[3].startswith("('n',) ({'n': 1009}, ")
    assert lines[-2].startswith("<Verdict correct: both sides agree")
    assert lines[-1] == "correct both sides agree; the emulator is not timed"


def test_the_reference_is_what_the_docstrings_say() -> None:
    assert (ROOT / "docs" / "python-reference.md").read_text() == render(), "run make docs"
