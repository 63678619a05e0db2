"""When a run ends for want of time."""

from __future__ import annotations

import pytest

from kcurate.train import stopping
from kcurate.train.stopping import LIGHT_SHARE, Stop


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])
    return now


def test_a_step_that_may_not_end_in_time_is_not_begun(clock: list[float]) -> None:
    stop = Stop(100.0)
    assert not stop.late()
    stop.took(40.0)
    clock[0] += 59.0
    assert not stop.late()
    clock[0] += 1.0
    assert stop.late()


def test_steps_whose_answers_are_drawn_count_as_shorter(clock: list[float]) -> None:
    stop = Stop(100.0)
    stop.took(80.0)
    clock[0] += 80.0 * LIGHT_SHARE
    assert stop.late()
    assert not stop.late(light=True)
    stop.took(2.0, light=True)
    clock[0] += 57.0
    assert not stop.late(light=True)
    clock[0] += 2.0
    assert stop.late(light=True)


def test_without_a_limit_nothing_is_late(clock: list[float]) -> None:
    stop = Stop()
    stop.took(1e9)
    assert not stop.late()
    assert stop.agreed() == (False, False)
