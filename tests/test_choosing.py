"""Which tests a run takes: what is quick, what is drawn, and that skips can fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import reach
import sampling
import small
from sampling import Sample

from kcurate.judge import Judge, JudgeConfig

COMMIT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")


def judged() -> Judge:
    return Judge(JudgeConfig(backend="emulator"))


def a_test_with_a_helper() -> None:
    judged().close()


def a_test_that_imports_late() -> None:
    from kcurate.train import callbacks  # noqa: F401


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
    shutil.copy(sampling.ROOT / "tests" / "conftest.py", folder)
    (folder / "test_it.py").write_text(code)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  gpu:\n  slow:\n  sample:\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{sampling.ROOT}:{sampling.ROOT / 'tests'}"},
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
    (tmp_path / "torch.py").touch()  # it is the name that counts, and the real one takes seconds
    done = run_pytest(tmp_path, code, "--quick")
    assert "this test starts python" in done.stdout
    assert "this test imports torch" in done.stdout
    assert "2 failed, 1 passed" in done.stdout


@pytest.mark.slow
def test_a_skip_fails_unless_only_a_gpu_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code = (
        "import pytest\n"
        "@pytest.mark.gpu\ndef test_gpu(): pass\n"
        "@pytest.mark.skip(reason='no moon')\ndef test_moon(): pass\n"
        "def test_sun(): pytest.importorskip('no_such_sun')\n"
    )
    (tmp_path / "test_whole.py").write_text("import pytest\npytest.importorskip('no_such_moon')\n")
    assert "4 skipped" in run_pytest(tmp_path, code).stdout
    done = run_pytest(tmp_path, code, "--no-skips", "--continue-on-collection-errors")
    assert done.returncode == 1
    assert "1 failed, 1 skipped, 2 errors" in done.stdout
    assert "--no-skips: Skipped: no moon" in done.stdout
    assert "--no-skips: Skipped: could not import 'no_such_moon'" in done.stdout


def test_a_commit_draws_one_in_32_and_the_next_others() -> None:
    folders = sampling.all_folders()
    drawn = [name for name in folders if Sample(COMMIT).drawn(name)]
    assert drawn == [name for name in folders if Sample(COMMIT).drawn(name)]
    assert len(folders) / 64 < len(drawn) < len(folders) / 20
    assert drawn != [name for name in folders if Sample(COMMIT[::-1]).drawn(name)]
    assert all(map(Sample().drawn, folders)), "without a commit"


def test_what_changed_in_the_last_commit_or_since_is_taken(tmp_path: Path) -> None:
    def write(name: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)

    def commit() -> None:
        subprocess.run([*GIT, "add", "."], cwd=tmp_path, check=True)
        subprocess.run([*GIT, "commit", "--quiet", "--message", "x"], cwd=tmp_path, check=True)

    assert sampling.sample(tmp_path).commit is None, "no repository"
    subprocess.run([*GIT, "init", "--quiet"], cwd=tmp_path, check=True)
    write("pairs/a/old/slow.cu")
    commit()
    assert sampling.sample(tmp_path).commit is None, "no earlier commit"
    write("pairs/a/committed/slow.cu")
    write("tests/shared.py")
    commit()
    write("pairs/a/new/slow.cu")
    found = sampling.sample(tmp_path)
    names = ["pairs/a/committed", "pairs/a/new", "pairs/a/old"]
    assert [name for name in names if found.touched(name)] == names[:2]
    assert found.takes(("pairs/a/old",), also=("tests/shared.py",))
    assert found.takes(("pairs/a/old",)) == found.drawn("pairs/a/old")
