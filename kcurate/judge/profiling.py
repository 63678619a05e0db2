"""Nsight Compute on sides: one `ncu` process profiles many, in a process that is sandboxed like a run worker.

Sides are compiled in compile workers first. The process under `ncu` (`workers.inside.profiled`) runs one side
after the other and logs which launches are recorded for each, so that the tool's output can be divided. If a
side ends it, the other sides go on in a new one. Not covered: what the tool prints (`kcurate.profiles.ncu`),
the counters (`kcurate.profiles.counters`).
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kcurate.backends.base import Compiled, CompileFailure
from kcurate.core import time_limits
from kcurate.errors import BackendError
from kcurate.judge.gpu_lock import GpuLock, lock_name
from kcurate.judge.workers.compiling import FAILED, CompileWorkers, our_kernels, request_of
from kcurate.judge.workers.messages import pack_compiled, pack_request
from kcurate.judge.workers.nursery import Nursery, Role, run_limited
from kcurate.judge.workers.requests import Generate, Load
from kcurate.judge.workers.timing_requests import Helpers
from kcurate.profiles import ncu
from kcurate.profiles.counters import Counted
from kcurate.records import Candidate, Environment, SideName

# Sides of one process under the tool, and sides that are compiled at once.
BATCH = 32
COMPILERS = 4
# Inputs are the same in every run, so that profiles can be made again.
SEED = 1
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kcurate.judge.workers.inside.profiled import main; main(sys.argv[2])"
)
Asked = tuple[Candidate, SideName]


@dataclass(frozen=True)
class Measured:
    """A side's profiled launches, and how many the plan has."""

    launches: int
    counted: tuple[Counted, ...]
    compiler: str


@dataclass(frozen=True)
class Logged:
    """What the process under the tool says of a side: the weight of each recorded launch; why it failed."""

    recorded: tuple[float, ...] = ()
    launches: int | None = None
    failed: str = ""


class Profiler:
    """Profiles sides on one GPU. Call `close` at the end.

    `environment`: that of the GPU; `arch`: what it runs, such as `sm_90`.

    Raises:
        MissingDependencyError: there is no compiler or `ncu`.
    """

    def __init__(
        self, gpu: int, metrics: Sequence[str], environment: Environment, arch: str, nursery: Nursery
    ) -> None:
        self.environment = environment
        self._gpu, self._command = gpu, ncu.command(metrics)
        self._nursery = nursery
        self._compilers = CompileWorkers(nursery, Role("compile", "cuda", gpu, {"arch": arch}), COMPILERS)
        self._helpers = our_kernels(self._compilers)
        self._lock = GpuLock(lock_name(environment))

    @classmethod
    def open(cls, gpu: int, metrics: Sequence[str]) -> Profiler:
        """A profiler on this machine's GPU of that number.

        Raises:
            MissingDependencyError: there is no GPU, compiler or `ncu`.
        """
        nursery = Nursery("cuda")
        try:
            worker = nursery.fork(Role("run", "cuda", gpu, {}))
            greeting = worker.ready()
            worker.kill()
            assert greeting.environment is not None, "a run worker has a device"
            assert greeting.arch is not None, "a GPU has an architecture"
            return cls(gpu, metrics, greeting.environment, greeting.arch, nursery)
        except BaseException:
            nursery.close()
            raise

    def close(self) -> None:
        """End all workers."""
        self._compilers.close()
        self._nursery.close()
        self._lock.close()

    def profile(self, asked: Sequence[Asked]) -> Generator[tuple[int, Measured | str]]:
        """The number of each side with what was counted, or why it could not be.

        Raises:
            KcurateError: the tool cannot count here.
        """
        batches = [range(start, min(start + BATCH, len(asked))) for start in range(0, len(asked), BATCH)]
        # While the tool runs one batch, the others are compiled.
        with ThreadPoolExecutor(1) as ahead, contextlib.ExitStack() as stack:
            compiling = [ahead.submit(self._compile, [asked[n] for n in numbers]) for numbers in batches]
            stack.callback(ahead.shutdown, cancel_futures=True)
            for numbers, waiting in zip(batches, compiling, strict=True):
                compiled = waiting.result()
                made: dict[int, Compiled] = {}
                for number, one in zip(numbers, compiled, strict=True):
                    if isinstance(one, CompileFailure):
                        yield number, FAILED[one.reason]
                    else:
                        made[number] = one
                while made:
                    found = self._run({number: asked[number] for number in made}, made)
                    yield from found.items()
                    made = {number: one for number, one in made.items() if number not in found}

    def _compile(self, asked: Sequence[Asked]) -> list[Compiled | CompileFailure]:
        requests = [request_of(candidate, side) for candidate, side in asked]
        return [
            one
            for start in range(0, len(requests), COMPILERS)
            for one in self._compilers.compile(requests[start : start + COMPILERS])
        ]

    def _run(self, asked: dict[int, Asked], made: dict[int, Compiled]) -> dict[int, Measured | str]:
        """What one process found; at least one side is in it.

        Raises:
            KcurateError: the tool cannot count here.
        """
        with tempfile.TemporaryDirectory(prefix="kcurate-profile-") as folder:
            root = Path(folder)
            self._write(root, asked, made)
            limit_s = time_limits.START_PROFILER_S + time_limits.PROFILE_SIDE_S * len(asked)
            command = [*self._command, sys.executable, "-c", BOOT, json.dumps(sys.path), folder]
            with self._lock.exclusive():
                done = run_limited(command, folder, limit_s)
            log = read_log(root / "log")
        if done is None:
            return hanging(log)
        return divided(log, done.stdout, {number: one.compiler for number, one in made.items()})

    def _write(self, root: Path, asked: dict[int, Asked], made: dict[int, Compiled]) -> None:
        """The job's files: requests and binaries."""
        described, blobs = pack_compiled(self._helpers)
        (root / "helpers.bin").write_bytes(blobs["binary"].tobytes())
        job: dict[str, Any] = {"gpu": self._gpu, "helpers": pack_request(Helpers(described)), "sides": []}
        for number, (candidate, side) in asked.items():
            assert candidate.problem is not None, "a proved pair has a problem"
            described, blobs = pack_compiled(made[number])
            (root / f"{number}.bin").write_bytes(blobs["binary"].tobytes())
            load = Load(described, candidate.problem, replace(getattr(candidate, side), code=""))
            inputs = Generate(str(number), candidate.problem.sizes.headline, SEED, "nominal", True)
            job["sides"].append((str(number), pack_request(load), pack_request(inputs)))
        (root / "job.json").write_text(json.dumps(job))
        (root / ncu.OWN_FOLDER).mkdir()
        (root / "log").touch()


def read_log(path: Path) -> dict[int, Logged]:
    """What was said of each side, in order."""
    found: dict[int, Logged] = {}
    for line in path.read_text().splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            said = json.loads(line)
            recorded = tuple(float(weight) for weight in said.get("recorded", ()))
            found[int(said["side"])] = Logged(recorded, said.get("launches"), str(said.get("failed", "")))
    return found


def hanging(log: dict[int, Logged]) -> dict[int, Measured | str]:
    """The side that ran when the tool was killed; what it had counted of the others is lost.

    Raises:
        BackendError: there is none.
    """
    found: dict[int, Measured | str] = {
        number: "it ran into a time limit" for number, one in log.items() if one.launches is None
    }
    if not found:
        raise BackendError(
            "Nsight Compute ran into a time limit", hint="run ncu on another program to see why"
        )
    return found


def divided(log: dict[int, Logged], output: str, compilers: dict[int, str]) -> dict[int, Measured | str]:
    """The tool's output divided among the sides of the log; a side that the process did not end failed.

    Raises:
        KcurateError: the tool counted nothing.
    """
    launches = ncu.launches(output)
    if not launches:
        raise ncu.failure(output)
    found: dict[int, Measured | str] = {}
    at = 1  # the first launch is our own
    for number, one in log.items():
        mine = launches[at : at + len(one.recorded)]
        at += len(one.recorded)
        if one.failed:
            found[number] = one.failed
        elif one.launches is None:
            found[number] = f"it ended the process: {ncu.said(output)}"
        elif len(mine) < len(one.recorded):
            found[number] = "the tool did not report all of its launches"
        else:
            counted = tuple(Counted(weight, each) for weight, each in zip(one.recorded, mine, strict=True))
            found[number] = Measured(one.launches, counted, compilers[number])
    return found
