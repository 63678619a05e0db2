"""The wheel, as it would be installed: it carries its data and runs without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=120)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("target")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(target), str(wheel)], check=True, timeout=120)
    return target


def run_installed(target: Path, *args: str) -> str:
    """Run Python so that the installed copy hides the checkout."""
    done = subprocess.run(
        [sys.executable, *args],
        cwd=target,
        env=os.environ | {"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_carries_its_data_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "schemas/pair.json",
        "sources/parboil.toml",
        "sources/demo/kcurate-demo.txt",
        "pairs/README.md",
    ):
        assert f"kcurate/_data/{name}" in names
    native = {path.name for path in (ROOT / "kcurate" / "capture" / "native").iterdir()}
    assert {f"kcurate/capture/native/{name}" for name in native} <= set(names)
    assert "kcurate/capture/FORMAT.md" in names and "injection.cpp" in native
    assert not [name for name in names if name.startswith(("tests/", "corpus/", "benchmarks/"))]
    shipped = {name.removeprefix("kcurate/_data/") for name in names}
    for folder in ("schemas", "sources", "pairs"):
        tracked = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert tracked <= shipped


def test_installed_copy_finds_its_data(installed: Path) -> None:
    code = (
        "import kcurate, kcurate.resources as r; "
        "print(kcurate.__file__, r.schemas_dir(), r.sources_dir(), r.pairs_dir())"
    )
    for path in run_installed(installed, "-c", code).split():
        assert Path(path).is_relative_to(installed)


def test_installed_command_runs(installed: Path) -> None:
    assert "Commands:" in run_installed(installed, "-m", "kcurate", "--help")
