"""The settings file and the names of the variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcurate.core import config
from kcurate.errors import InputError

OPTIONS = {
    "extract": frozenset({"workspace", "jobs", "min_device_fraction"}),
    "validate": frozenset({"workspace", "jobs", "backend"}),
}


def read(folder: Path, text: str) -> dict[str, dict[str, object]]:
    (folder / config.FILE_NAME).write_text(text)
    return config.read_file(folder, OPTIONS)


def test_top_keys_go_to_every_command_that_has_them(tmp_path: Path) -> None:
    found = read(
        tmp_path, 'jobs = 3\nmin-device-fraction = 0.5\n[validate]\nbackend = "emulator"\njobs = 1\n'
    )
    assert found == {
        "extract": {"jobs": 3, "min_device_fraction": 0.5},
        "validate": {"jobs": 1, "backend": "emulator"},
    }


def test_a_missing_file_gives_no_settings(tmp_path: Path) -> None:
    assert config.read_file(tmp_path / "nowhere", OPTIONS) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job = 3", r"unknown key 'job' \(did you mean jobs\?\)"),
        ("[extract]\nbackend = 1", r"unknown key 'extract\.backend'"),
        ("[extrct]\njobs = 1", r"unknown table \[extrct\] \(did you mean extract\?\)"),
        ('workspace = "x"', "unknown key 'workspace'"),
        ("jobs =", "not TOML"),
    ],
)
def test_unusable_input_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "kcurate.toml"))


def test_misspelt_variable_is_refused() -> None:
    config.check_environment(["KCURATE_JOBS", "KCURATE_EXTRACT_JOBS", "HOME"], OPTIONS)
    with pytest.raises(InputError, match=r"KCURATE_JOB: unknown setting \(did you mean KCURATE_JOBS\?\)"):
        config.check_environment(["KCURATE_JOB"], OPTIONS)
