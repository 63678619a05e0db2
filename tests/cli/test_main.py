"""The command as a user runs it: a process with arguments, pipes and signals."""

from __future__ import annotations

import json
import subprocess
import sys

import kcurate


def kcurate_command(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kcurate", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_version_is_the_packages() -> None:
    done = kcurate_command("--version")
    assert (done.returncode, done.stdout) == (0, f"kcurate {kcurate.__version__}\n")


def test_unknown_command_is_a_usage_error() -> None:
    done = kcurate_command("explode")
    assert done.returncode == 2
    assert "No such command 'explode'" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_doctor_json_is_one_object() -> None:
    done = kcurate_command("doctor", "--json")
    assert done.returncode == 0
    findings = json.loads(done.stdout)["findings"]
    assert findings[0]["topic"] == "Python"
    assert all(finding["ok"] or finding["hint"] for finding in findings)
