"""Warm workers that serve several candidates: which are handed out, kept and ended."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

from kcurate.core import resources, store
from kcurate.judge.workers.nursery import Role
from kcurate.judge.workers.spares import WarmWorkers, is_shipped
from kcurate.records import Origin


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


def test_a_pair_is_shipped_by_its_content_and_not_by_its_word(tmp_path: Path) -> None:
    """Whoever writes a record may call it curated, and give it any id."""
    pair = store.read_candidate(resources.pairs_dir() / "reduction-scan/reduce-sum")
    assert is_shipped(pair)
    assert not is_shipped(replace(pair, fast=replace(pair.fast, code=pair.fast.code + " ")))
    assert not is_shipped(replace(pair, origin=Origin("model", made="fast", model="m")))
    assert not is_shipped(replace(pair, id="reduction-scan/none"))
    other = replace(pair, id="elsewhere", fast=replace(pair.fast, code=pair.fast.code + " "))
    store.write_candidate(tmp_path / "elsewhere", other)
    outside = f"{'../' * 40}{str(tmp_path / 'elsewhere').lstrip('/')}"
    assert not is_shipped(replace(other, id=outside))
