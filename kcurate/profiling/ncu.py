"""Nsight Compute's command line and output.

Source: Nsight Compute CLI, "Command Line Options" (`--csv`, `--metrics`, `--query-metrics`). Not covered: the
profiled process (`kcurate.judge.workers.inside.profiled`), the metrics (`kcurate.profiling.counters`).
"""

from __future__ import annotations

import csv
import math
import re
import shutil
import subprocess
from collections.abc import Sequence

from kcurate.core import time_limits
from kcurate.errors import BackendError, KcurateError, MissingDependencyError

TOOL = "ncu"
# The folder in which the tool's library keeps its lock, inside the temporary folder of a profiled process.
# The process needs to write nowhere else.
OWN_FOLDER = "nvidia"
HINT = "it comes with the CUDA toolkit, or alone as Nsight Compute; put its folder on PATH"
_ADMIN = "run as root, or have the driver loaded with NVreg_RestrictProfilingToAdminUsers=0"
_VERSION = re.compile(r"Version (\d[\d.]*\d)")
_BASE = re.compile(r'^"?([a-z0-9]+__[a-z0-9_]+)\b', re.MULTILINE)
# Factors to base units: we ask for these, but older versions scale some values anyway.
_UNITS = {
    "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9,
    "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
}  # fmt: skip
# How much of the output an error message quotes.
_LINES, _MOST_CHARS = 3, 500
# If a query lists fewer metrics than this, its output was not understood.
_LEAST_LISTED = 100


def installed() -> str:
    """The path of `ncu`.

    Raises:
        MissingDependencyError: there is none.
    """
    path = shutil.which(TOOL)
    if path is None:
        raise MissingDependencyError("Nsight Compute (ncu) is not installed", hint=HINT)
    return path


def command(metrics: Sequence[str]) -> list[str]:
    """`ncu` with options; the program to profile comes next.

    Clocks are left alone. All caches are flushed before each pass over a launch.
    """
    return [
        *(installed(), "--csv", "--print-units", "base", "--clock-control", "none"),
        *("--cache-control", "all", "--replay-mode", "kernel", "--profile-from-start", "off"),
        *("--metrics", ",".join(metrics)),
    ]


def version() -> str:
    """The tool's name and version for a profile, such as `ncu 2025.3.1`.

    Raises:
        MissingDependencyError: there is none.
    """
    match = _VERSION.search(_output_of("--version"))
    return f"{TOOL} {match[1]}" if match else TOOL


def known_metrics() -> frozenset[str]:
    """The base names of the metrics of this machine's GPU; empty if the tool does not list them."""
    return listed(_output_of("--query-metrics", "--csv"))


def listed(text: str) -> frozenset[str]:
    """The base names in the output of a query, a table or CSV."""
    names = frozenset(_BASE.findall(text))
    return names if len(names) >= _LEAST_LISTED else frozenset()


def _output_of(*options: str) -> str:
    try:
        done = subprocess.run(
            [installed(), *options],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=time_limits.ASK_PROFILER_S,
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout


def launches(text: str) -> list[dict[str, float]]:
    """The metrics of each profiled launch, in order, in base units; those without a number are left out."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    by_launch: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(lines):
        try:
            name, unit, value = row["Metric Name"], row["Metric Unit"], row["Metric Value"]
            values = by_launch.setdefault(row["ID"], {})
        except KeyError:
            continue
        number = _number(value)
        if number is not None:
            values[name] = number * _UNITS.get(unit or "", 1.0)
    return list(by_launch.values())


def _number(text: str | None) -> float | None:
    """A value such as `1,234.5`; None for `n/a`, `nan` and the like."""
    try:
        number = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def failure(output: str) -> KcurateError:
    """The error for output that lacks profiled launches."""
    if "ERR_NVGPUCTRPERM" in output:
        return MissingDependencyError("no permission to read the GPU's performance counters", hint=_ADMIN)
    if "LibraryNotLoaded" in output:
        problem = (
            "Nsight Compute cannot read counters here: a library of the driver is missing (a sandboxed GPU?)"
        )
        return MissingDependencyError(problem, hint="run on a machine with the whole driver")
    if "ERR_NVGPUCTR" in output or "another tool" in output.lower():
        problem = "the GPU's counters are in use by another tool"
        return MissingDependencyError(problem, hint="end it (dcgm, nsys, another ncu) and run again")
    return BackendError(
        f"Nsight Compute failed: {last_messages(output)}", hint="run ncu on another program to see why"
    )


def last_messages(output: str) -> str:
    """The last lines that are neither results nor progress, which explain an error."""
    lines = (line.replace("==ERROR==", "").strip() for line in output.splitlines())
    messages = [line for line in lines if line and not line.startswith(('"', "==PROF=="))]
    return " | ".join(messages[-_LINES:])[-_MOST_CHARS:] or "it printed nothing"
