"""compute-sanitizer on one side at a small size: memory errors, races, uninitialised reads, invalid barriers.

Where it is not installed nothing is checked, and the verdict's `checks` do not name it. The process under
the tool runs this module's `main`. Source: NVIDIA Compute Sanitizer user manual (tools memcheck, racecheck,
initcheck, synccheck; `--error-exitcode`). Not covered: the other stages of a judgement
(`kcurate.judge.judging`).
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kcurate import time_limits
from kcurate.backends.base import Compiled
from kcurate.errors import BackendError
from kcurate.judge.case import Case, Ruling
from kcurate.judge.gpu_lock import GpuLock
from kcurate.judge.workers.inside.side_server import SideServer
from kcurate.judge.workers.messages import pack_compiled, pack_request, read_request
from kcurate.judge.workers.nursery import run_limited
from kcurate.judge.workers.requests import Generate, Load, Run
from kcurate.judge.workers.side_proxy import on_both_sides
from kcurate.records import SIDES, Candidate, Outcome
from kcurate.records.pair import SideName

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# The exit code that we ask the tool to use for errors.
FOUND = 9
MAX_REPORT_CHARS = 4000
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kcurate.judge.sanitizer import main; main(sys.argv[2])"
)


def installed() -> str | None:
    """The path of compute-sanitizer, or None."""
    return shutil.which("compute-sanitizer")


def examine_case(
    case: Case, compiled: Mapping[SideName, Compiled], gpu: int, seed: int, lock: GpuLock
) -> None:
    """Run both sides under every tool; tools that finished on both sides are added to the checks.

    Raises:
        Ruling: a tool reported an error; the log has its report.
    """
    if installed() is None or any(compiled[side].backend != "cuda" for side in SIDES):
        return
    for tool in TOOLS:

        def one(side: SideName, tool: str = tool) -> str | None:
            return examine(tool, case.candidate, side, compiled[side], gpu, seed)

        with lock.shared():
            reports = on_both_sides(one)
        for side, report in reports.items():
            if report:
                outcome = Outcome.NONDETERMINISTIC if tool == "racecheck" else Outcome.MISMATCH
                raise Ruling(outcome, f"compute-sanitizer {tool} reports errors", side=side, log=report)
        if all(report is not None for report in reports.values()):
            case.passed(tool)


def examine(
    tool: str, candidate: Candidate, side: SideName, compiled: Compiled, gpu: int, seed: int
) -> str | None:
    """Run one side once under one tool; its report, empty if it is clean, None if it ran out of time.

    Raises:
        BackendError: the tool or the process under it failed.
    """
    assert candidate.problem is not None
    described, _ = pack_compiled(compiled)
    load = Load(described, candidate.problem, replace(getattr(candidate, side), code=""))
    inputs = Generate("0", candidate.problem.sizes.test[0], seed, "nominal")
    job = {"gpu": gpu, "requests": [pack_request(load), pack_request(inputs)]}
    with tempfile.TemporaryDirectory(prefix="kcurate-sanitize-") as folder:
        Path(folder, "job.json").write_text(json.dumps(job))
        Path(folder, "binary").write_bytes(compiled.binary)
        command = [installed() or "compute-sanitizer", "--tool", tool, f"--error-exitcode={FOUND}"]
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
    if done.returncode == FOUND:
        return report or f"{tool} reports errors"
    if done.returncode:
        raise BackendError(f"compute-sanitizer {tool} exited with {done.returncode}: {done.stdout[-2000:]}")
    return ""


def main(folder: str) -> None:
    """The process under the tool: load and run once, without redzones, so that the tool sees array bounds."""
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
