"""Turns modules into problems in worker processes, since that runs code that is not ours.

A process imports torch, enters its sandbox (no network, no writing outside its folder, limited memory), and
converts one module after another. A process that takes too long is killed and replaced. Not covered: how a
problem is made (`kernelbench.module_problem`), where modules come from (`kernelbench.tasks`).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

from kcurate.core import codec, time_limits
from kcurate.errors import BackendError, MissingDependencyError, ProblemError
from kcurate.judge.workers.nursery import worker_environment
from kcurate.judge.workers.protocol import Channel, ChannelClosed, ChannelTimeout, Frame, pair
from kcurate.records import Problem, Side

BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kcurate.train.kernelbench.worker import main; main(int(sys.argv[2]))"
)
MAX_PROCESSES = 8


@dataclass(frozen=True)
class Found:
    """The result for one module: its problem, the side that calls it, the file's sizes; or `why` not."""

    problem: Problem | None = None
    side: Side | None = None
    as_in_file: Mapping[str, int] | None = None
    why: str = ""


def find_all(modules: Mapping[str, str], bench_bytes: int | None) -> dict[str, Found]:
    """Turn every module (name to code) into a problem, with up to one process per core.

    Raises:
        MissingDependencyError: torch is not installed. BackendError: an internal error.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in modules:
        waiting.put(name)
    count = max(1, min(len(modules), len(os.sched_getaffinity(0)), MAX_PROCESSES))
    found: dict[str, Found] = {}

    def serve() -> None:
        with contextlib.closing(_Process()) as process, contextlib.suppress(queue.Empty):
            while True:
                name = waiting.get_nowait()
                found[name] = process.find(modules[name], bench_bytes)

    with ThreadPoolExecutor(count) as threads:
        for job in [threads.submit(serve) for _ in range(count)]:
            job.result()
    return {name: found[name] for name in modules}


class _Process:
    """One process, started on first use and again after it died."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="kcurate-kernelbench-")
        self._running: tuple[subprocess.Popen[bytes], Channel] | None = None

    def find(self, code: str, bench_bytes: int | None) -> Found:
        """Turn one module into a problem."""
        channel = self._channel()
        try:
            channel.send({"code": code, "bench_bytes": bench_bytes})
            return _found(channel.receive(time_limits.KERNELBENCH_MODULE_S))
        except ChannelTimeout:
            self._end()
            return Found(why=f"analysing it took more than {time_limits.KERNELBENCH_MODULE_S:.0f} s")
        except ChannelClosed:
            self._end()
            return Found(why="analysing it killed the process: out of memory, or a crash")

    def _channel(self) -> Channel:
        if self._running is None:
            channel, theirs = pair()
            process = subprocess.Popen(
                [sys.executable, "-c", BOOT, json.dumps(sys.path), str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=self._folder,
                env=worker_environment(self._folder),
                start_new_session=True,
            )
            theirs.close()
            self._running = (process, channel)
            try:
                greeting = channel.receive(time_limits.START_WORKER_S)
            except (ChannelTimeout, ChannelClosed) as error:
                self._end()
                raise BackendError("the process that analyses modules did not start") from error
            if "missing" in greeting.body:
                raise MissingDependencyError(
                    "tasks in PyTorch need torch", hint="pip install 'kcurate[train]'"
                )
        return self._running[1]

    def _end(self) -> None:
        if self._running is not None:
            process, channel = self._running
            self._running = None
            channel.close()
            process.kill()
            process.wait()

    def close(self) -> None:
        """Kill the process."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)


def _found(frame: Frame) -> Found:
    body = frame.body
    if "error" in body:
        raise BackendError(f"internal error: {body['error']}", hint="please report it")
    if "why" in body:
        return Found(why=str(body["why"]))
    problem, side = codec.from_data(Problem, body["problem"]), codec.from_data(Side, body["side"])
    return Found(problem, side, {str(name): int(value) for name, value in body["as_in_file"].items()})


def main(fd: int) -> None:
    """The main function of a process: import, enter the sandbox, greet, answer until the channel closes."""
    channel = Channel.from_fd(fd)

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with contextlib.suppress(ChannelClosed):
            channel.send({"error": "".join(traceback.format_exception(kind, error, trace))})

    sys.excepthook = report
    try:
        import torch._dynamo  # noqa: F401 - the sandbox forbids what it writes
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        channel.send({"missing": "torch"})
        return
    from kcurate.backends import torch_module
    from kcurate.judge.workers.inside import isolation
    from kcurate.train.kernelbench.module_problem import problem_of

    torch_module.preload("emulator")
    warnings.simplefilter("ignore")  # warnings of code that is not ours
    isolation.enter("compile", "emulator")
    channel.send({})
    with contextlib.suppress(ChannelClosed):
        while True:
            body = channel.receive().body
            try:
                made = problem_of(body["code"], body["bench_bytes"])
            except ProblemError as error:
                channel.send({"why": error.what})
                continue
            data = {"problem": codec.to_data(made.problem), "side": codec.to_data(made.side)}
            channel.send({**data, "as_in_file": dict(made.as_in_file)})
