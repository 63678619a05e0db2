"""The wheel, as it would be installed: it carries its data and runs without the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from kcurate import __version__

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=120)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip installs of it, but for the command."""
    target = tmp_path_factory.mktemp("target")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


@pytest.fixture(scope="module")
def isolated(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment that has the base install and nothing else."""
    folder = tmp_path_factory.mktemp("isolated")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(folder / "bin" / "python"), "install"]
    hashed = ["--no-compile", "--no-deps", "--require-hashes", "-r", str(ROOT / "requirements.txt")]
    subprocess.run([*pip, *hashed], check=True, timeout=280)
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, timeout=120)
    return folder / "bin"


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
    assert "kcurate/answers/native/answer.h" in names
    assert "kcurate/capture/FORMAT.md" in names and "injection.cpp" in native
    assert not [name for name in names if name.startswith(("tests/", "corpus/", "benchmarks/"))]
    shipped = {name.removeprefix("kcurate/_data/") for name in names}
    for folder in ("schemas", "sources", "pairs"):
        tracked = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert tracked <= shipped


def test_installed_copy_finds_its_data(installed: Path) -> None:
    code = (
        "import kcurate, kcurate.core.resources as r; "
        "print(kcurate.__file__, r.schemas_dir(), r.sources_dir(), r.pairs_dir())"
    )
    for path in run_installed(installed, "-c", code).split():
        assert Path(path).is_relative_to(installed)


def test_installed_command_runs(installed: Path) -> None:
    assert "Commands:" in run_installed(installed, "-m", "kcurate", "--help")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_base_install_works_by_itself(isolated: Path, tmp_path: Path) -> None:
    """The versions of requirements.txt, by hash; no checkout, no package of this environment."""
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}

    def kcurate(*args: str) -> subprocess.CompletedProcess[str]:
        command = [str(isolated / "kcurate"), *args]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
        )

    shutil.copytree(ROOT / "sources" / "demo", tmp_path / "mine")
    pair = "deep-learning/softmax-block-online"
    for args, line in (
        (("--version",), f"kcurate {__version__}"),
        (("extract", "mine"), "pairs pair 3"),
        (("validate", pair, "--backend", "emulator"), "candidates correct 1"),
        (("build", "--built-in"), "pairs confirmed"),
    ):
        done = kcurate(*args)
        assert done.returncode == 0 and not done.stderr.startswith("error"), done.stderr
        assert line in re.sub(" +", " ", done.stdout)
    for args, extra in (
        (("train", "--yes"), "train"),
        (("deopt", pair, "--model", "openai:m@http://127.0.0.1:9/v1"), "openai"),
        (("extract", "mine", "--compile"), "gpu"),
        (("validate", pair, "--backend", "emulator", "--ray", "auto"), "ray"),
    ):
        done = kcurate(*args)
        assert done.returncode == 1
        said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(said) == 1 and f"pip install 'kcurate[{extra}]'" in said[0], done.stderr
        assert "Traceback" not in done.stderr
    megabytes = sum(path.lstat().st_blocks for path in isolated.parent.rglob("*")) / 2048
    assert megabytes < 430  # without bytecode and pip; with them 503, and 530 is the limit


def test_the_hashed_requirements_are_the_base_install() -> None:
    """What `make lock` wrote pins as constraints.txt does, and has what pyproject.toml asks for."""

    def pins(name: str) -> dict[str, str]:
        found = re.findall(r"^([A-Za-z0-9._-]+)==([^ \n]+)", (ROOT / name).read_text(), re.MULTILINE)
        return {package.lower(): version for package, version in found}

    hashed = pins("requirements.txt")
    constraints = pins("constraints.txt")
    assert {name: constraints.get(name) for name in hashed if name in constraints} == {
        name: version for name, version in hashed.items() if name in constraints
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {re.split("[>=]", one)[0] for one in project["dependencies"]} <= set(hashed)
    assert not {"openai", "scipy", "torch", "ray"} & set(hashed)
    entries = re.split(r"^(?=\w)", (ROOT / "requirements.txt").read_text(), flags=re.MULTILINE)[1:]
    assert len(entries) == len(hashed) and all("--hash=sha256:" in entry for entry in entries)


def test_every_install_command_names_an_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set()
    for path in (ROOT / "kcurate").rglob("*.py"):
        for lead, names in re.findall(r"(.{0,13})kcurate\[([\w,]+)\]", path.read_text()):
            assert lead.endswith("pip install '") or "openai" in names, f"{path}: {lead}"
            named.update(names.split(","))
    assert named <= set(extras) and named >= {"gpu", "emulator", "train", "ray", "openai"}
    assert set(re.findall(r"\w+", extras["all"][0].removeprefix("kcurate"))) == named
