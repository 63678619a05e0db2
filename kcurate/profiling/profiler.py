"""Runs Nsight Compute on sides: one `ncu` process profiles many, in a process sandboxed like a run worker.

Sides are first compiled in compile workers. The process under `ncu` (`workers.inside.profiled`) runs one side
after the other and logs the recorded launches of each, by which the tool's output is divided among the sides.
If a side ends the process, the remaining sides run in a new one. Not covered: the tool's output
(`kcurate.profiling.ncu`), the counters (`kcurate.profiling.counters`).
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
from kcurate.profiling import ncu
from kcurate.profiling.counters import Counted
from kcurate.records import Candidate, Environment, SideName

# How many sides one process profiles, and how many are compiled at once.
BATCH = 32
COMPILERS = 4
# A fixed seed of the inputs, so that profiles are reproducible.
SEED = 1
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kcurate.judge.workers.inside.profiled import main; main(sys.argv[2])"
)
PairSide = tuple[Candidate, SideName]


@dataclass(frozen=True)
class Measured:
    """A side's profiled launches, and the number of launches in its plan."""

    launches: int
    counted: tuple[Counted, ...]
    compiler: str


@dataclass(frozen=True)
class Logged:
    """What the profiled process logged about a side: the weight of each recorded launch, or why it failed."""

    recorded: tuple[float, ...] = ()
    launches: int | None = None
    failed: str = ""


class Profiler:
    """Profiles sides on one GPU. Call `close` at the end.

    `environment`: of the GPU; `arch`: its architecture, such as `sm_90`.

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
        """A profiler for the GPU with this index.

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

    def profile(self, sides: Sequence[PairSide]) -> Generator[tuple[int, Measured | str]]:
        """The index of each side with its measurement, or with the reason why there is none.

        Raises:
            KcurateError: the tool cannot count here.
        """
        batches = [range(start, min(start + BATCH, len(sides))) for start in range(0, len(sides), BATCH)]
        # The next batches are compiled while the tool runs one.
        with ThreadPoolExecutor(1) as ahead, contextlib.ExitStack() as stack:
            compiling = [ahead.submit(self._compile, [sides[n] for n in numbers]) for numbers in batches]
            stack.callback(ahead.shutdown, cancel_futures=True)
            for numbers, waiting in zip(batches, compiling, strict=True):
                compiled = waiting.result()
                binaries: dict[int, Compiled] = {}
                for number, side in zip(numbers, compiled, strict=True):
                    if isinstance(side, CompileFailure):
                        yield number, FAILED[side.reason]
                    else:
                        binaries[number] = side
                while binaries:
                    results = self._run({number: sides[number] for number in binaries}, binaries)
                    yield from results.items()
                    binaries = {
                        number: binary for number, binary in binaries.items() if number not in results
                    }

    def _compile(self, sides: Sequence[PairSide]) -> list[Compiled | CompileFailure]:
        requests = [request_of(candidate, side) for candidate, side in sides]
        return [
            side
            for start in range(0, len(requests), COMPILERS)
            for side in self._compilers.compile(requests[start : start + COMPILERS])
        ]

    def _run(self, sides: dict[int, PairSide], binaries: dict[int, Compiled]) -> dict[int, Measured | str]:
        """The results of one process, for at least one side.

        Raises:
            KcurateError: the tool cannot count here.
        """
        with tempfile.TemporaryDirectory(prefix="kcurate-profile-") as folder:
            root = Path(folder)
            self._write(root, sides, binaries)
            limit_s = time_limits.START_PROFILER_S + time_limits.PROFILE_SIDE_S * len(sides)
            command = [*self._command, sys.executable, "-c", BOOT, json.dumps(sys.path), folder]
            with self._lock.exclusive():
                done = run_limited(command, folder, limit_s)
            log = read_log(root / "log")
        if done is None:
            return hanging(log)
        return divided(log, done.stdout, {number: binary.compiler for number, binary in binaries.items()})

    def _write(self, root: Path, sides: dict[int, PairSide], binaries: dict[int, Compiled]) -> None:
        """Write the files of a job: requests and binaries."""
        described, blobs = pack_compiled(self._helpers)
        (root / "helpers.bin").write_bytes(blobs["binary"].tobytes())
        job: dict[str, Any] = {"gpu": self._gpu, "helpers": pack_request(Helpers(described)), "sides": []}
        job["writable"] = ncu.OWN_FOLDER
        for number, (candidate, side) in sides.items():
            assert candidate.problem is not None, "a proved pair has a problem"
            described, blobs = pack_compiled(binaries[number])
            (root / f"{number}.bin").write_bytes(blobs["binary"].tobytes())
            load = Load(described, candidate.problem, replace(getattr(candidate, side), code=""))
            inputs = Generate(str(number), candidate.problem.sizes.headline, SEED, "nominal", True)
            job["sides"].append((str(number), pack_request(load), pack_request(inputs)))
        (root / "job.json").write_text(json.dumps(job))
        (root / ncu.OWN_FOLDER).mkdir()
        (root / "log").touch()


def read_log(path: Path) -> dict[int, Logged]:
    """The log entry of each side, in order."""
    logged: dict[int, Logged] = {}
    for line in path.read_text().splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            recorded = tuple(float(weight) for weight in entry.get("recorded", ()))
            logged[int(entry["side"])] = Logged(recorded, entry.get("launches"), str(entry.get("failed", "")))
    return logged


def hanging(log: dict[int, Logged]) -> dict[int, Measured | str]:
    """The result of the side that was running when the tool was killed; those of other sides are lost.

    Raises:
        BackendError: no side was running.
    """
    results: dict[int, Measured | str] = {
        number: "it ran into a time limit" for number, logged in log.items() if logged.launches is None
    }
    if not results:
        raise BackendError(
            "Nsight Compute ran into a time limit", hint="run ncu on another program to see why"
        )
    return results


def divided(log: dict[int, Logged], output: str, compilers: dict[int, str]) -> dict[int, Measured | str]:
    """The tool's output divided among the sides in the log; a side that did not finish has failed.

    Raises:
        KcurateError: the tool counted nothing.
    """
    launches = ncu.launches(output)
    if not launches:
        raise ncu.failure(output)
    results: dict[int, Measured | str] = {}
    at = 1  # the first launch is one of ours
    for number, logged in log.items():
        own_launches = launches[at : at + len(logged.recorded)]
        at += len(logged.recorded)
        if logged.failed:
            results[number] = logged.failed
        elif logged.launches is None:
            results[number] = f"it ended the process: {ncu.last_messages(output)}"
        elif len(own_launches) < len(logged.recorded):
            results[number] = "the tool did not report all of its launches"
        else:
            counted = tuple(
                Counted(weight, metrics)
                for weight, metrics in zip(logged.recorded, own_launches, strict=True)
            )
            results[number] = Measured(logged.launches, counted, compilers[number])
    return results
