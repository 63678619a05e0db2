"""A Ray cluster: connecting to one, and a pool whose workers are on its nodes.

kcurate must be installed on every node, and all nodes must share the folders of a run. Not covered: referees
(`kcurate.judge.referees.ray_cluster`), how a cluster is started.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from kcurate.core import time_limits
from kcurate.core.worker_pool import Failure, Pool
from kcurate.errors import InputError, KcurateError, MissingDependencyError

T = TypeVar("T")
R = TypeVar("R")
# A task is started again if its node dies, so many times.
RESTARTS = 8
# So many tasks a core wait on the cluster: enough to keep it busy, few enough to keep little in memory.
WAITING = 4


def connected(address: str) -> Any:
    """The module `ray`, connected to the cluster at `address` (`auto`: this machine's).

    Raises:
        MissingDependencyError: Ray is not installed. InputError: no cluster answers there.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError(
            "Ray is not installed", where="--ray", hint="pip install 'kcurate[ray]'"
        ) from error
    if not ray.is_initialized():
        _answers(address)
        handler = signal.getsignal(signal.SIGTERM)  # Ray replaces it, but a trainer saves on SIGTERM
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            what = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise InputError(what, where=f"--ray {address}", hint="ray start --head") from error
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)
    return ray


def _answers(address: str) -> None:
    """Refuse a `HOST:PORT` on which nothing listens.

    Raises:
        InputError: nothing listens.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return
    try:
        socket.create_connection((host, int(port)), time_limits.FIND_RAY_S).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"nothing answers there: {error}", where=f"--ray {address}", hint="ray start --head"
        ) from error


def workers(jobs: int, preload: Sequence[str], *, ray: str | None, serves: int = 0) -> Pool:
    """A pool of this machine, or of the cluster at the address `ray`; otherwise as `Pool`.

    Raises:
        InputError, MissingDependencyError: as `connected`.
    """
    return Pool(jobs, preload, serves=serves) if ray is None else _Nodes(ray, preload, serves)


class _Nodes(Pool):
    """A worker for each core of a cluster; the tasks of a node that dies run again elsewhere.

    Each Ray worker has a pool of one process, so that crashes and limits work as on one machine.
    """

    def __init__(self, address: str, preload: Sequence[str], serves: int) -> None:
        super().__init__(1, serves=serves)
        self._ray = connected(address)
        self._settings = str(Path.cwd()), tuple(preload), serves
        self._task = self._ray.remote(num_cpus=1, max_retries=RESTARTS)(_on_a_node)

    def run(
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        *,
        timeout_s: float,
        cpu_s: float = float("inf"),
        isolate: bool = True,
    ) -> Iterator[tuple[int, R | Failure]]:
        """As `Pool.run`; every task is isolated in a process, regardless of `isolate`."""
        left = iter(enumerate(tasks))
        running: dict[Any, int] = {}
        while True:
            room = WAITING * max(1, int(self._ray.cluster_resources().get("CPU", 0)))
            while len(running) < room and (following := next(left, None)) is not None:
                index, task = following
                running[self._task.remote(self._settings, function, task, timeout_s, cpu_s)] = index
            if not running:
                return
            ready, _ = self._ray.wait(list(running), num_returns=1)
            yield running.pop(ready[0]), self._answer(ready[0])

    def _answer(self, reference: Any) -> Any:
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return Failure("crashed", next(iter(str(error).splitlines()), type(error).__name__))
        if isinstance(answer, KcurateError):
            raise answer
        return answer


@cache
def _pool(folder: str, preload: Sequence[str], serves: int) -> Pool:
    """The pool of this Ray worker; its process ends with it.

    Raises:
        InputError: the folder of the run is not on this node.
    """
    try:
        os.chdir(folder)
    except OSError as error:
        what = f"{folder}, where the command runs, is not on a node: {error.strerror}"
        raise InputError(what, where="--ray", hint="folders must be shared by all nodes") from error
    return Pool(1, preload, serves=serves)


def _on_a_node(
    settings: tuple[str, Sequence[str], int],
    function: Callable[[T], R],
    task: T,
    timeout_s: float,
    cpu_s: float,
) -> R | Failure | KcurateError:
    """One task; our errors are returned, since Ray would wrap raised ones."""
    try:
        pool = _pool(*settings)
        return next(pool.run(function, [task], timeout_s=timeout_s, cpu_s=cpu_s, isolate=True))[1]
    except KcurateError as error:
        return error
