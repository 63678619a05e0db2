"""Which tests a run takes: what is quick."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import reach
import small

from kcurate.judge.judge import Judge, JudgeConfig


def judged() -> Judge:
    return Judge(JudgeConfig(backend="emulator"))


def a_test_with_a_helper() -> None:
    judged().close()


def a_test_that_imports_late() -> None:
    from kcurate.train import gradients  # noqa: F401


def a_test_of_the_command() -> None:
    subprocess.run([sys.executable, "-m", "kcurate"], check=True)


def a_test_of_records() -> None:
    assert small.problem().buffers


def test_what_a_test_reaches_decides_whether_it_is_quick() -> None:
    assert reach.heavy(a_test_with_a_helper)
    assert reach.heavy(a_test_that_imports_late) in reach.TORCH
    assert reach.heavy(a_test_of_the_command) == "subprocess"
    assert reach.heavy(a_test_of_records) is None


def run_pytest(folder: Path, code: str, *options: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(reach.ROOT / "tests" / "conftest.py", folder)
    (folder / "test_it.py").write_text(code)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  gpu:\n  slow:\n  sample:\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{reach.ROOT}:{reach.ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_quick_test_that_starts_python_or_loads_torch_fails(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom importlib import import_module\n"
        "def test_command(): import_module('subprocess').run([sys.executable, '-c', ''], check=True)\n"
        "def test_torch(): import_module('torch')\n"
        "def test_neither(): pass\n"
    )
    done = run_pytest(tmp_path, code, "--quick")
    assert "this test starts python" in done.stdout
    assert "this test imports torch" in done.stdout
    assert "2 failed, 1 passed" in done.stdout
