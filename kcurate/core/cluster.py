"""A Ray cluster: connecting to one, and tasks that run on it as they do in a pool of this machine.

kcurate must be installed on every node. Not covered: referees (`kcurate.judge.referees.ray_cluster`), how a
cluster is started.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
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
    """Refuse a `HOST:PORT` where nothing listens.

    Raises:
        InputError: nothing does.
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


def run(
    address: str, function: Callable[[T], R], tasks: Sequence[T], *, timeout_s: float
) -> Iterator[tuple[int, R | Failure]]:
    """As `Pool.run` with `isolate`, on all nodes of a cluster; a node that dies costs its tasks' time.

    Raises:
        InputError, MissingDependencyError: as `connected`. KcurateError: raised by `function` itself.
    """
    ray = connected(address)
    start = ray.remote(num_cpus=1, max_retries=RESTARTS)(_isolated)
    left = iter(enumerate(tasks))
    running: dict[Any, int] = {}
    while True:
        room = WAITING * max(1, int(ray.cluster_resources().get("CPU", 0)))
        while len(running) < room and (following := next(left, None)) is not None:
            running[start.remote(function, following[1], timeout_s)] = following[0]
        if not running:
            return
        (reference,), _ = ray.wait(list(running), num_returns=1)
        index = running.pop(reference)
        try:
            answer = ray.get(reference)
        except ray.exceptions.RayError as error:
            answer = Failure("crashed", next(iter(str(error).splitlines()), type(error).__name__))
        if isinstance(answer, KcurateError):
            raise answer
        yield index, answer


def _isolated(function: Callable[[T], R], task: T, timeout_s: float) -> R | Failure | KcurateError:
    """One task in a process of its own on a node, with the time limit and the outcomes of a local pool."""
    try:
        with Pool(1) as pool:
            return next(iter(pool.run(function, [task], timeout_s=timeout_s, isolate=True)))[1]
    except KcurateError as error:  # Ray would wrap it
        return error
