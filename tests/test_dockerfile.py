"""The RUN lines and the CMD of the Dockerfile, in an empty environment; no image is built."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STEPS = re.findall(r"^([A-Z]+) (.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
IGNORED = (ROOT / ".dockerignore").read_text().replace("**/", "").split()


def test_it_has_only_steps_that_the_test_below_knows() -> None:
    assert [name for name, _ in STEPS] == [
        "FROM", "RUN", "WORKDIR", "COPY", "ENV", "RUN", "RUN", "RUN", "ENV", "USER", "WORKDIR", "CMD",
    ]  # fmt: skip
    assert ("COPY", ". .") in STEPS


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_lines_make_an_environment_that_runs_the_demo(tmp_path: Path) -> None:
    """As `docker build` runs them, but for apt: its package has to be here already."""
    environment = {"PATH": os.defpath, "HOME": str(tmp_path / "tmp")}
    folder = tmp_path
    for name, value in STEPS:
        if name == "WORKDIR":
            folder = tmp_path / value.lstrip("/")
            folder.mkdir(exist_ok=True)
        elif name == "COPY":
            shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*IGNORED), dirs_exist_ok=True)
        elif name in ("RUN", "CMD"):
            command = " ".join(json.loads(value)) if name == "CMD" else value
            if command.startswith("apt-get"):
                assert shutil.which("g++") and "install --yes --no-install-recommends g++ " in command
                continue
            command = re.sub(r"^python\b", sys.executable, command.replace("/opt/", f"{tmp_path}/opt/"))
            done = subprocess.run(
                command, shell=True, cwd=folder, env=environment, capture_output=True, text=True,
                timeout=400, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{command}: {done.stderr}"
    assert re.search(r"validate candidates +correct +[1-9]", done.stdout)
    assert re.search(r"build pairs +confirmed +\d\d\d", done.stdout)
    assert (tmp_path / "tmp" / "kcurate-demo" / "dataset").is_dir()
