"""Referees on a Ray cluster: one actor each, with its own GPU; kcurate must be installed on every node.

Use `kcurate.judge.referees.local.Referees(..., hire=cluster(ADDRESS).hire)`. Not covered: the queue of
candidates (`kcurate.judge.referees.local`), starting a cluster.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any

from kcurate.core import time_limits
from kcurate.core.cluster import connected
from kcurate.errors import KcurateError
from kcurate.judge.judging import Judge, JudgeConfig
from kcurate.judge.referees.local import Referee, RefereeLost
from kcurate.records import Candidate, Environment, Verdict


@dataclass(frozen=True)
class Cluster:
    """A connected cluster, with its GPUs and CPUs as Ray counts them."""

    gpus: int
    cpus: int

    def places(self, backend: str) -> int:
        """The number of referees that it has room for."""
        return self.gpus if backend == "cuda" else self.cpus

    def hire(self, config: JudgeConfig) -> Referee:
        """Start an actor; Ray chooses its node and GPU and ignores `config.gpu`."""
        return _RayReferee(replace(config, gpu=0))


def cluster(address: str) -> Cluster:
    """Connect to the cluster at `address` (`auto`: this machine's), unless already connected.

    Raises:
        MissingDependencyError: Ray is not installed. InputError: no cluster answers there.
    """
    ray = connected(address)
    resources: Any = ray.cluster_resources
    totals = resources()
    return Cluster(int(totals.get("GPU", 0)), int(totals.get("CPU", 0)))


class _Actor:
    """The actor: a judge. It returns our errors, since Ray would wrap raised ones."""

    def __init__(self, config: JudgeConfig) -> None:
        self._judge: Judge | KcurateError
        try:
            self._judge = Judge(config)
        except KcurateError as error:
            self._judge = error

    def environment(self) -> Environment | KcurateError:
        return self._judge if isinstance(self._judge, KcurateError) else self._judge.environment()

    def judge(self, candidate: Candidate) -> Verdict | KcurateError | None:
        """The verdict; None if our own failure may have caused it, so that another referee retries."""
        if isinstance(self._judge, KcurateError):
            return self._judge
        try:
            verdict = self._judge.judge(candidate)
        except KcurateError as error:
            return error
        return verdict if self._judge.usable else None


class _RayReferee:
    """One actor as a `Referee`."""

    def __init__(self, config: JudgeConfig) -> None:
        import ray

        self._ray = ray
        gpus = 1 if config.backend == "cuda" else 0
        self._actor: Any = ray.remote(num_cpus=1, num_gpus=gpus)(_Actor).remote(config)

    def environment(self) -> Environment:
        """See `Referee`."""
        answer = self._ask(self._actor.environment.remote(), time_limits.START_RAY_REFEREE_S)
        assert isinstance(answer, Environment)
        return answer

    def judge(self, candidate: Candidate, limit_s: float | None) -> Verdict:
        """See `Referee`."""
        answer = self._ask(self._actor.judge.remote(candidate), limit_s)
        if answer is None:
            raise RefereeLost("the judging process died twice")
        assert isinstance(answer, Verdict)
        return answer

    def stop(self, *, now: bool) -> None:
        """See `Referee`; Ray always kills an actor at once."""
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(self._actor)

    def _ask(self, reference: Any, limit_s: float | None) -> object:
        try:
            answer = self._ray.get(reference, timeout=limit_s)
        except self._ray.exceptions.GetTimeoutError as error:
            raise RefereeLost(f"no answer within {limit_s:.0f} s", late=True) from error
        except self._ray.exceptions.RayError as error:
            raise RefereeLost("the judging process died twice") from error
        if isinstance(answer, KcurateError):
            raise answer
        return answer
