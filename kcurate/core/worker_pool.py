"""A pool of worker processes in which a crash or hang is the result of one task and affects no other.

Each worker has one task at a time; results are yielded as they arrive. With one job everything runs in this
process, unless `isolate` requires a separate worker.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from kcurate.errors import BackendError, KcurateError

T = TypeVar("T")
# How often the CPU time of busy workers is looked at.
LOOK_S = 1.0
R = TypeVar("R")


@dataclass(frozen=True)
class Failure:
    """A task without a result: `crashed` (the worker was killed by a signal) or `timeout`."""

    kind: str
    detail: str


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    index: int | None = None
    deadline_s: float = 0.0
    most_cpu_s: float = float("inf")
    served: int = 0


def _serve(connection: Connection) -> None:
    """A worker's main loop: run tasks until the parent closes the connection or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    while True:
        try:
            function, task = connection.recv()
        except (EOFError, ConnectionError):
            return
        try:
            answer = function(task)
        except KcurateError as error:
            answer = error
        try:
            connection.send(answer)
        except ConnectionError:
            return


def _context(preload: Sequence[str]) -> Any:
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    return context


def _count(jobs: int) -> int:
    return jobs or len(os.sched_getaffinity(0))


def warm_up(jobs: int, preload: Sequence[str]) -> None:
    """Start importing `preload` for the workers of a later pool, while this process imports other modules."""
    if sys.platform == "linux" and _count(jobs) > 1:
        from multiprocessing import forkserver

        _context(preload)
        forkserver.ensure_running()


class Pool:
    """Up to `jobs` workers (0: one per core), kept from one call of `run` to the next; a context manager.

    `preload`: the modules with the functions to run, imported once for all workers. `serves`: how many tasks
    a worker does before another takes its place (0: no limit), for functions that leak resources. `alone`:
    this is a worker itself, whose death is one task's failure: callers start no further processes.
    """

    def __init__(
        self, jobs: int, preload: Sequence[str] = (), *, serves: int = 0, alone: bool = False
    ) -> None:
        self.jobs = _count(jobs)
        self.alone = alone
        self.serves = serves
        self.context = _context(preload)
        self.workers: list[_Worker] = []

    def __enter__(self) -> Pool:
        if self.jobs > 1:  # workers start while the parent collects files
            self.workers = [self._start() for _ in range(self.jobs)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            _stop(worker)
        self.workers = []

    def run(
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        *,
        timeout_s: float,
        cpu_s: float = float("inf"),
        isolate: bool = False,
    ) -> Iterator[tuple[int, R | Failure]]:
        """Apply a module-level function to every task; yields (index, result or failure) in any order.

        A task has `timeout_s` seconds, and `cpu_s` seconds of CPU time with all processes that it starts, a
        limit that does not depend on the load of the machine.

        Raises:
            KcurateError: raised by `function` itself.
            BackendError: `function` raised anything else in a worker (the traceback is on stderr).
        """
        if (self.jobs == 1 or len(tasks) == 1) and not isolate:
            yield from enumerate(map(function, tasks))
            return
        queue = iter(enumerate(tasks))
        while len(self.workers) < min(self.jobs, len(tasks)):
            self.workers.append(self._start())
        for worker in self.workers:
            _next_task(worker, function, queue, timeout_s, cpu_s)
        while busy := [worker for worker in self.workers if worker.index is not None]:
            for worker in _ready(busy):
                assert worker.index is not None
                index, result = worker.index, _result(worker)
                if isinstance(result, KcurateError):
                    raise result
                worker.served += 1
                worn = worker.served == self.serves
                if worn:
                    worker.index = None
                    _stop(worker)
                if worn or isinstance(result, Failure):
                    self.workers.remove(worker)
                    worker = self._start()
                    self.workers.append(worker)
                _next_task(worker, function, queue, timeout_s, cpu_s)
                yield index, result

    def _start(self) -> _Worker:
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=_serve, args=(theirs,), daemon=True)
        try:
            process.start()
        except (OSError, EOFError) as error:
            why = f"cannot start a worker process: {error}"
            raise BackendError(why, hint="ask for fewer with --jobs") from error
        finally:
            theirs.close()
        return _Worker(process, ours)


def _next_task(
    worker: _Worker,
    function: Callable[[T], Any],
    queue: Iterator[tuple[int, T]],
    timeout_s: float,
    cpu_s: float,
) -> None:
    following = next(queue, None)
    worker.index = None if following is None else following[0]
    if following is not None:
        worker.deadline_s = time.monotonic() + timeout_s
        if cpu_s < float("inf"):
            worker.most_cpu_s = _cpu_s(worker.process.pid) + cpu_s
        worker.connection.send((function, following[1]))


def _ready(busy: list[_Worker]) -> list[_Worker]:
    """The workers that answered, died, passed their deadline or used up their CPU time."""
    while True:
        patience_s = max(0.0, min(worker.deadline_s for worker in busy) - time.monotonic())
        if any(worker.most_cpu_s < float("inf") for worker in busy):
            patience_s = min(patience_s, LOOK_S)
        answered = wait([worker.connection for worker in busy], patience_s)
        now = time.monotonic()
        ready = [worker for worker in busy if worker.connection in answered or now >= worker.deadline_s]
        ready = ready or [worker for worker in busy if _cpu_s(worker.process.pid) > worker.most_cpu_s]
        if ready:
            return ready


def _with_children(pid: int | None) -> Iterator[int]:
    """A process and all its descendants, from /proc."""
    if pid is not None:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                for child in children.read_text().split():
                    yield from _with_children(int(child))
        yield pid


def _cpu_s(pid: int | None) -> float:
    """CPU time of a process and all its descendants, including ended ones; 0 without Linux's /proc."""
    ticks = 0
    for each in _with_children(pid):
        with contextlib.suppress(OSError):
            # proc(5): after the name in parentheses, which may hold anything, fields 14 to 17 are the times.
            status = Path(f"/proc/{each}/stat").read_text(errors="replace")
            ticks += sum(map(int, status.rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _result(worker: _Worker) -> Any:
    """The result of a ready worker; a `Failure` if it died or hung (it is then gone)."""
    if worker.connection.poll():
        try:
            return worker.connection.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            code = worker.process.exitcode or 0
            if code > 0:
                raise BackendError(
                    "a worker process raised an error", hint="its traceback is above; please report it"
                ) from None
            worker.connection.close()
            return Failure("crashed", f"the worker was killed by signal {-code}")
    within = time.monotonic() < worker.deadline_s
    _stop(worker)
    return Failure("timeout", "it used up its CPU time" if within else "no result within the time limit")


def _stop(worker: _Worker) -> None:
    if worker.index is not None:
        for pid in _with_children(
            worker.process.pid
        ):  # before closing its connection, or it would print an error
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    worker.connection.close()
    worker.process.join()
