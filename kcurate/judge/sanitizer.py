"""compute-sanitizer on both sides at a small size: memory errors, races, uninitialised reads, barriers.

If it is not installed, nothing is checked, and the verdict's `sanitizers` and `checks` do not name it. The
process under the tool runs this module's `main`. Source: NVIDIA Compute Sanitizer user manual (memcheck,
racecheck, initcheck, synccheck; `--error-exitcode`). Not covered: the other stages of a judgement
(`kcurate.judge.judging`).
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kcurate.backends.base import Compiled
from kcurate.core import time_limits
from kcurate.errors import BackendError
from kcurate.judge.case import Case, Ruling
from kcurate.judge.gpu_lock import GpuLock
from kcurate.judge.workers.inside.side_server import SideServer
from kcurate.judge.workers.messages import pack_compiled, pack_request, read_request
from kcurate.judge.workers.nursery import run_limited
from kcurate.judge.workers.requests import Generate, Load, Run
from kcurate.judge.workers.side_proxy import on_both_sides
from kcurate.problem.bind_once import bind_once
from kcurate.problem.ops import LaunchOp
from kcurate.records import SIDES, Candidate, Outcome, Sanitized
from kcurate.records.pair import SideName

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# The tools for confirmed pairs that are not ours.
PUBLISHED = ("memcheck", "racecheck")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
# The exit code that the tool is told to use if it finds errors.
FOUND_ERRORS = 9
MAX_REPORT_CHARS = 4000
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kcurate.judge.sanitizer import main; main(sys.argv[2])"
)


def installed() -> str | None:
    """The path of compute-sanitizer, or None."""
    return shutil.which("compute-sanitizer")


@cache
def version() -> str | None:
    """The version of compute-sanitizer, as it prints it; None if it does not run."""
    path = installed()
    if path is None:
        return None
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=time_limits.ASK_PROFILER_S,
            check=False,
        )
        if match := _VERSION.search(done.stdout):
            return match[0]
    return None


def examine_case(
    case: Case,
    compiled: Mapping[SideName, Compiled],
    gpu: int,
    seed: int,
    lock: GpuLock,
    tools: Sequence[str] = TOOLS,
) -> None:
    """Run both sides under these tools; a tool that finished on both sides becomes a passed check.

    Every run is added to the case's `sanitized`. Nothing runs if compute-sanitizer is not installed.

    Raises:
        Ruling: a tool reported an error; the log has its report.
    """
    release = version() if all(compiled[side].backend == "cuda" for side in SIDES) else None
    if release is None:
        return
    sizes = smallest(case.candidate)
    for tool in tools:

        def report_of(side: SideName, tool: str = tool) -> str | None:
            return examine(tool, case.candidate, side, compiled[side], gpu, seed, sizes)

        with case.stage("sanitize"), lock.shared():
            reports = on_both_sides(report_of)
        finished = {side: report for side, report in reports.items() if report is not None}
        case.sanitized += [
            Sanitized(tool, release, side, sizes, not report) for side, report in finished.items()
        ]
        for side, report in finished.items():
            if report:
                outcome = Outcome.NONDETERMINISTIC if tool == "racecheck" else Outcome.MISMATCH
                raise Ruling(outcome, f"compute-sanitizer {tool} reports errors", side=side, log=report)
        if len(finished) == len(reports):
            case.passed(tool)


def smallest(candidate: Candidate) -> Mapping[str, int]:
    """The cheapest test size: fewest threads, among those with the most grid axes longer than one block."""
    problem = candidate.problem
    assert problem is not None, "a side that ran has a problem"

    def axes_and_threads(sizes: Mapping[str, int]) -> tuple[int, int]:
        launches = [
            step
            for side in SIDES
            for step in bind_once(problem, getattr(candidate, side), sizes).ops
            if isinstance(step, LaunchOp)
        ]
        threads = sum(math.prod(step.grid) * math.prod(step.block) for step in launches)
        return -sum(extent > 1 for step in launches for extent in step.grid), threads

    return min(problem.sizes.test, key=axes_and_threads)


def examine(
    tool: str,
    candidate: Candidate,
    side: SideName,
    compiled: Compiled,
    gpu: int,
    seed: int,
    sizes: Mapping[str, int],
) -> str | None:
    """Run one side once under one tool; its report, empty if it is clean, None if it ran out of time.

    Raises:
        BackendError: the tool or the process under it failed.
    """
    assert candidate.problem is not None
    described, _ = pack_compiled(compiled)
    load = Load(described, candidate.problem, replace(getattr(candidate, side), code=""))
    inputs = Generate("0", sizes, seed, "nominal")
    job = {"gpu": gpu, "requests": [pack_request(load), pack_request(inputs)]}
    with tempfile.TemporaryDirectory(prefix="kcurate-sanitize-") as folder:
        Path(folder, "job.json").write_text(json.dumps(job))
        Path(folder, "binary").write_bytes(compiled.binary)
        command = [installed() or "compute-sanitizer", "--tool", tool, f"--error-exitcode={FOUND_ERRORS}"]
        if tool == "memcheck":  # we count a kernel's parameters by asking for one past the last
            command += ["--report-api-errors", "no"]
        if tool == "initcheck":  # our copies read module variables, which the driver initialised
            command += ["--check-api-memory-access", "no"]
        boot = [sys.executable, "-c", BOOT, json.dumps(sys.path), folder]
        done = run_limited([*command, *boot], folder, time_limits.SANITIZE_S)
    if done is None:
        return None
    lines = [line.removeprefix("=========").strip() for line in done.stdout.splitlines() if "====" in line]
    report = "\n".join(line for line in lines if line)[:MAX_REPORT_CHARS]
    if done.returncode == FOUND_ERRORS:
        return report or f"{tool} reports errors"
    if done.returncode:
        raise BackendError(f"compute-sanitizer {tool} exited with {done.returncode}: {done.stdout[-2000:]}")
    return ""


def main(folder: str) -> None:
    """The process under the tool: load and run once; without redzones, so the tool sees array bounds."""
    from kcurate.backends.cuda.device import CudaDevice

    job: Mapping[str, Any] = json.loads(Path(folder, "job.json").read_text())
    binary = np.frombuffer(Path(folder, "binary").read_bytes(), np.uint8)
    device = CudaDevice(job["gpu"])
    device.divides = False
    server = SideServer(device)
    server.tight = True
    for request in job["requests"]:
        server.handle(read_request(request), {"binary": binary})
    server.handle(Run("0", salts=(0,)), {})
