"""Worker processes that survive what they run: a crash or a hang of one task is a result, not the end.

One task is in flight per worker; results come as they are ready. With one job everything runs in this
process, except where `isolate` asks for a worker of its own.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from kcurate.errors import BackendError

T = TypeVar("T")
R = TypeVar("R")

PRELOAD = ["kcurate.extract.units"]


@dataclass(frozen=True)
class Failure:
    """A task that ended without a result: `crashed` (the worker died of a signal) or `timeout`."""

    kind: str
    detail: str


@dataclass
class _Worker(Generic[T]):
    process: BaseProcess
    connection: Connection
    task: tuple[int, T] | None = None
    deadline_s: float = 0.0


def _serve(function: Callable[[Any], Any], connection: Connection) -> None:
    """A worker's life: answer tasks until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        connection.send(function(task))


def _context() -> Any:
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


def run_tasks(
    function: Callable[[T], R], tasks: Sequence[T], jobs: int, *, timeout_s: float, isolate: bool = False
) -> Iterator[tuple[int, R | Failure]]:
    """Apply a module-level function to every task; yields (index, result or failure) in any order.

    Raises:
        BackendError: `function` itself raised in a worker (its traceback is on stderr).
    """
    jobs = min(jobs, len(tasks))
    if jobs <= 1 and not isolate:
        for index, task in enumerate(tasks):
            yield index, function(task)
        return
    context = _context()
    queue = iter(enumerate(tasks))
    workers: list[_Worker[T]] = []
    try:
        for _ in range(jobs):
            workers.append(_start(context, function))
            _next_task(workers[-1], queue, timeout_s)
        while busy := [worker for worker in workers if worker.task is not None]:
            for worker in _ready(busy):
                assert worker.task is not None
                index = worker.task[0]
                result = _result(worker)
                if isinstance(result, Failure):
                    workers.remove(worker)
                    worker = _start(context, function)
                    workers.append(worker)
                _next_task(worker, queue, timeout_s)
                yield index, result
    finally:
        for worker in workers:
            _stop(worker)


def _start(context: Any, function: Callable[[T], Any]) -> _Worker[T]:
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(function, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _next_task(worker: _Worker[T], queue: Iterator[tuple[int, T]], timeout_s: float) -> None:
    worker.task = next(queue, None)
    if worker.task is not None:
        worker.deadline_s = time.monotonic() + timeout_s
        worker.connection.send(worker.task[1])


def _ready(busy: list[_Worker[T]]) -> list[_Worker[T]]:
    """The workers that answered, died, or are past their deadline."""
    patience_s = max(0.0, min(worker.deadline_s for worker in busy) - time.monotonic())
    answered = wait([worker.connection for worker in busy], patience_s)
    now = time.monotonic()
    return [worker for worker in busy if worker.connection in answered or now >= worker.deadline_s]


def _result(worker: _Worker[T]) -> Any:
    """What a ready worker has to say; a `Failure` when it died or hangs (it is gone afterwards)."""
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
            return Failure("crashed", f"the worker died of signal {-code}")
    _stop(worker)
    return Failure("timeout", "no answer within the time limit")


def _stop(worker: _Worker[T]) -> None:
    worker.connection.close()
    if worker.task is not None:
        worker.process.kill()
    worker.process.join()
