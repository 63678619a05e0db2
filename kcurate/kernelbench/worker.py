"""Turns modules into problems in worker processes, since this runs untrusted code.

A process converts one module after another; one that takes too long is killed and replaced. Not covered:
its sandbox (`kernelbench.torch_process`), how a problem is made (`kernelbench.module_problem`), where modules
come from (`kernelbench.tasks`).
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import traceback
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

from kcurate.core import codec, time_limits
from kcurate.errors import BackendError, ProblemError
from kcurate.judge.workers.protocol import Channel, ChannelClosed, ChannelTimeout, Frame
from kcurate.kernelbench.torch_process import TorchProcess, sandboxed
from kcurate.records import Problem, Side

MAX_PROCESSES = 8


@dataclass(frozen=True)
class Conversion:
    """The result for one module: its problem, the side that calls it, and the file's sizes; or `why` not."""

    problem: Problem | None = None
    side: Side | None = None
    as_in_file: Mapping[str, int] | None = None
    why: str = ""


def convert_all(
    modules: Mapping[str, str], bench_bytes: int | None, widest: int = 1
) -> dict[str, Conversion]:
    """Turn every module (name to code) into a problem, with up to one process per core; `widest` is that of
    `module_problem.problem_of`.

    Raises:
        MissingDependencyError: torch is not installed. BackendError: an internal error.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in modules:
        waiting.put(name)
    count = max(1, min(len(modules), len(os.sched_getaffinity(0)), MAX_PROCESSES))
    conversions: dict[str, Conversion] = {}

    def serve() -> None:
        with contextlib.closing(_Process()) as process, contextlib.suppress(queue.Empty):
            while True:
                name = waiting.get_nowait()
                conversions[name] = process.convert(modules[name], bench_bytes, widest)

    with ThreadPoolExecutor(count) as threads:
        for job in [threads.submit(serve) for _ in range(count)]:
            job.result()
    return {name: conversions[name] for name in modules}


class _Process:
    """One worker process, started on first use and again after it died."""

    def __init__(self) -> None:
        self._running: TorchProcess | None = None

    def convert(self, code: str, bench_bytes: int | None, widest: int = 1) -> Conversion:
        """Turn one module into a problem."""
        if self._running is None:
            does, needing = "analyses modules", "tasks in PyTorch need"
            self._running = TorchProcess(__name__, does=does, needing=needing)
        channel = self._running.channel
        try:
            channel.send({"code": code, "bench_bytes": bench_bytes, "widest": widest})
            return _conversion(channel.receive(time_limits.KERNELBENCH_MODULE_S))
        except ChannelTimeout:
            self.close()
            return Conversion(why=f"analysing it took more than {time_limits.KERNELBENCH_MODULE_S:.0f} s")
        except ChannelClosed:
            self.close()
            return Conversion(why="analysing it killed the process: out of memory, or a crash")

    def close(self) -> None:
        """Kill the process."""
        if self._running is not None:
            self._running.close()
            self._running = None


def _conversion(frame: Frame) -> Conversion:
    body = frame.body
    if "error" in body:
        raise BackendError(f"internal error: {body['error']}", hint="please report it")
    if "why" in body:
        return Conversion(why=str(body["why"]))
    problem, side = codec.from_data(Problem, body["problem"]), codec.from_data(Side, body["side"])
    return Conversion(problem, side, {str(name): int(value) for name, value in body["as_in_file"].items()})


def main(fd: int) -> None:
    """The main function of a process: import, enter the sandbox, greet, answer until the channel closes."""
    channel = Channel.from_fd(fd)

    def report(cls: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        with contextlib.suppress(ChannelClosed):
            channel.send({"error": "".join(traceback.format_exception(cls, error, trace))})

    sys.excepthook = report
    warnings.simplefilter("ignore")  # warnings of code that is not ours
    if not sandboxed(channel, ("kcurate.kernelbench.module_problem",)):
        return
    from kcurate.kernelbench.module_problem import problem_of

    with contextlib.suppress(ChannelClosed):
        while True:
            body = channel.receive().body
            try:
                problem = problem_of(body["code"], body["bench_bytes"], body["widest"])
            except ProblemError as error:
                channel.send({"why": error.what})
                continue
            data = {"problem": codec.to_data(problem.problem), "side": codec.to_data(problem.side)}
            channel.send({**data, "as_in_file": dict(problem.as_in_file)})
