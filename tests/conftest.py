"""Markers `gpu` and `slow`, each gated in one place that says why."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="also run tests marked slow (over 10 s each)")


def _missing_gpu() -> str | None:
    if shutil.which("nvidia-smi") is None:
        return "no NVIDIA GPU on this machine (nvidia-smi not found)"
    if subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).returncode:
        return "no NVIDIA GPU on this machine (nvidia-smi fails)"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any(item.get_closest_marker("gpu") for item in items) and (reason := _missing_gpu()):
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=reason))
    if not config.getoption("--run-slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow; run with --run-slow"))
