"""Warm workers that serve several candidates: which are handed out, kept and ended."""

from __future__ import annotations

import itertools
from typing import Any

from kcurate.judge.workers.nursery import Role
from kcurate.judge.workers.spares import WarmWorkers


class Stub:
    """A worker that is at once ready."""

    def __init__(self, number: int) -> None:
        self.number, self.alive, self.used = number, True, False

    def ready(self) -> None:
        pass

    def kill(self) -> None:
        self.alive = False


class Forks:
    """A nursery of stubs."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def fork(self, _: Role) -> Any:
        return Stub(next(self._numbers))


def test_a_worker_that_held_a_side_goes_to_our_candidates_alone() -> None:
    spares = WarmWorkers(Forks(), Role("run", "cuda"), 2)  # type: ignore[arg-type]
    first = spares.take()
    first.used = True
    spares.refill()
    assert [worker.number for worker in spares.give(first)] == [2]  # type: ignore[attr-defined]
    assert spares.take(unused=True).number == 1  # type: ignore[attr-defined]
    assert spares.take() is first
    assert not spares.take(unused=True).used


def test_after_a_failure_no_worker_that_held_a_side_is_left() -> None:
    spares = WarmWorkers(Forks(), Role("run", "cuda"), 2)  # type: ignore[arg-type]
    first = spares.take()
    first.used = True
    spares.give(first)
    spares.kill_used()
    assert not first.alive
    assert spares.take() is not first
