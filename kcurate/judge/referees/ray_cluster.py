"""Referees on a Ray cluster: one actor each, with a GPU of its own; the machines need kcurate installed.

For `kcurate.judge.referees.local.Referees(..., hire=cluster(ADDRESS).hire)`. What an actor judges is what a
process of this machine judges. Not covered: starting a cluster.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from dataclasses import dataclass, replace
from typing import Any

from kcurate import time_limits
from kcurate.errors import InputError, KcurateError, MissingDependencyError
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.referees.local import Lost, Referee
from kcurate.records import Candidate, Environment, Verdict


@dataclass(frozen=True)
class Cluster:
    """A connected cluster: its GPUs and CPUs, as Ray counts them."""

    gpus: int
    cpus: int

    def places(self, backend: str) -> int:
        """How many referees it has room for."""
        return self.gpus if backend == "cuda" else self.cpus

    def hire(self, config: JudgeConfig) -> Referee:
        """A new actor; Ray chooses its machine and GPU, `config.gpu` is not asked."""
        return _RayReferee(replace(config, gpu=0))


def cluster(address: str) -> Cluster:
    """Connect to the cluster at `address` (`auto`: the one of this machine), unless that is done.

    Raises:
        MissingDependencyError: Ray is not installed. InputError: no cluster answers there.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError("Ray is not installed", where="--ray", hint="kcurate[ray]") from error
    if not ray.is_initialized():
        ended = signal.getsignal(signal.SIGTERM)  # Ray puts its own in place, and a trainer saves on it
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            what = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise InputError(what, where=f"--ray {address}", hint="ray start --head") from error
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, ended)
    resources: Any = ray.cluster_resources
    found = resources()
    return Cluster(int(found.get("GPU", 0)), int(found.get("CPU", 0)))


class _Actor:
    """What runs on the cluster: a judge; errors of ours are answers, as Ray would wrap them."""

    def __init__(self, config: JudgeConfig) -> None:
        self._judge: Judge | KcurateError
        try:
            self._judge = Judge(config)
        except KcurateError as error:
            self._judge = error

    def environment(self) -> Environment | KcurateError:
        return self._judge if isinstance(self._judge, KcurateError) else self._judge.environment()

    def judge(self, candidate: Candidate) -> Verdict | KcurateError | None:
        """The verdict; None when it may be about us, and another referee is to judge again."""
        if isinstance(self._judge, KcurateError):
            return self._judge
        try:
            verdict = self._judge.judge(candidate)
        except KcurateError as error:
            return error
        return verdict if self._judge.usable else None


class _RayReferee:
    """One actor, as `kcurate.judge.referees.local.Referees` sees it."""

    def __init__(self, config: JudgeConfig) -> None:
        import ray

        self._ray = ray
        gpus = 1 if config.backend == "cuda" else 0
        self._actor: Any = ray.remote(num_cpus=1, num_gpus=gpus)(_Actor).remote(config)

    def environment(self) -> Environment:
        """See `Referee`."""
        found = self._ask(self._actor.environment.remote(), time_limits.START_RAY_REFEREE_S)
        assert isinstance(found, Environment)
        return found

    def judge(self, candidate: Candidate, limit_s: float | None) -> Verdict:
        """See `Referee`."""
        answer = self._ask(self._actor.judge.remote(candidate), limit_s)
        if answer is None:
            raise Lost("the judging process died twice")
        assert isinstance(answer, Verdict)
        return answer

    def stop(self, *, now: bool) -> None:
        """See `Referee`; Ray ends an actor at once."""
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(self._actor)

    def _ask(self, reference: Any, limit_s: float | None) -> object:
        try:
            answer = self._ray.get(reference, timeout=limit_s)
        except self._ray.exceptions.GetTimeoutError as error:
            raise Lost(f"no answer within {limit_s:.0f} s", late=True) from error
        except self._ray.exceptions.RayError as error:
            raise Lost("the judging process died twice") from error
        if isinstance(answer, KcurateError):
            raise answer
        return answer
