"""The shipped folders are found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kcurate.core import resources
from kcurate.errors import MissingDependencyError


def test_each_shipped_folder_is_found_in_a_checkout() -> None:
    assert (resources.schemas_dir() / "pair.json").is_file()
    assert (resources.sources_dir() / "parboil.toml").is_file()
    assert (resources.pairs_dir() / "README.md").is_file()


def test_missing_folder_says_how_to_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "files", lambda _: tmp_path / "kcurate")
    with pytest.raises(MissingDependencyError, match="reinstall kcurate"):
        resources.pairs_dir()


def test_wheel_layout_comes_before_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path / "pairs", tmp_path / "kcurate" / "_data" / "pairs"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(resources, "files", lambda _: tmp_path / "kcurate")
    assert resources.pairs_dir() == tmp_path / "kcurate" / "_data" / "pairs"


# Everything that is tracked travels to a GPU machine with each call.
MAX_TRACKED_BYTES = 42 << 20


def test_what_is_tracked_stays_small() -> None:
    root = Path(__file__).resolve().parent.parent
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = [root / name for name in listed.stdout.decode().split("\0") if name]
    assert sum(file.lstat().st_size for file in files if file.is_file()) < MAX_TRACKED_BYTES
