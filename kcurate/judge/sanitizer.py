"""compute-sanitizer over one side at a small size: memory errors, races, uninitialised reads, bad barriers.

Where the tool is not installed nothing is checked, and the verdict's `checks` say so by not naming it. The
program under it is this module, run as a process of its own. Facts on the tool: NVIDIA Compute Sanitizer user
manual (tools memcheck, racecheck, initcheck, synccheck; `--error-exitcode`).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kcurate import backends, codec
from kcurate.backends.base import Compiled
from kcurate.judge import compiling
from kcurate.judge.protocol import Frame
from kcurate.judge.runner import Runner
from kcurate.judge.workers import worker_environment
from kcurate.records import Candidate
from kcurate.records.pair import SideName

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
FOUND = 9
TIMEOUT_S = 120.0
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kcurate.judge.sanitizer import main; main(sys.argv[2])"
)


def installed() -> str | None:
    """The tool's path, or None."""
    return shutil.which("compute-sanitizer")


def examine(
    tool: str, candidate: Candidate, side: SideName, compiled: Compiled, gpu: int, seed: int
) -> str | None:
    """Run one side once under one tool: its report when it found something, else None.

    Raises:
        OSError: the tool cannot be started. subprocess.TimeoutExpired: it did not end.
    """
    assert candidate.problem is not None
    described = {
        **compiling.pack_compiled(compiled)[0],
        "problem": codec.to_data(candidate.problem),
        "side": {**codec.to_data(getattr(candidate, side)), "code": ""},
        "sizes": dict(candidate.problem.sizes.test[0]),
        "seed": seed,
        "gpu": gpu,
    }
    with tempfile.TemporaryDirectory(prefix="kcurate-sanitize-") as folder:
        Path(folder, "job.json").write_text(json.dumps(described))
        Path(folder, "binary").write_bytes(compiled.binary)
        command = [installed() or "compute-sanitizer", "--tool", tool, f"--error-exitcode={FOUND}"]
        done = subprocess.run(
            [*command, sys.executable, "-c", BOOT, json.dumps(sys.path), folder],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
            cwd=folder,
            env=worker_environment(folder),
        )
    if not done.returncode:
        return None
    lines = [line.removeprefix("=========").strip() for line in done.stdout.splitlines() if "====" in line]
    return "\n".join(lines[:40]) or f"{tool} ended with code {done.returncode}"


def main(folder: str) -> None:
    """What runs under the tool: load, prepare, run once."""
    job: Mapping[str, Any] = json.loads(Path(folder, "job.json").read_text())
    binary = np.frombuffer(Path(folder, "binary").read_bytes(), np.uint8)
    runner = Runner(backends.open_device("cuda", job["gpu"]))
    runner.handle(Frame({"op": "load", **job}, {"binary": binary}))
    case = {"slot": "0", "sizes": job["sizes"], "seed": job["seed"], "variation": "nominal"}
    runner.handle(Frame({"op": "generate", **case}))
    runner.handle(Frame({"op": "run", "slot": "0", "poison": 0}))
