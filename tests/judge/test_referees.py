"""Referees that stay: futures, a limit on each candidate, and what happens when one dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import closing

import pytest
import small

from kcurate.errors import KcurateError
from kcurate.judge.judge import JudgeConfig
from kcurate.judge.referees import LocalReferee, Referees
from kcurate.records import Outcome

CONFIG = JudgeConfig(backend="emulator", spares=1)
FOR_EVER = small.SCALE.replace("if (i < n)", "while (n) if (i < n)")


@pytest.fixture(scope="module")
def referees() -> Iterator[Referees]:
    with closing(Referees(CONFIG, jobs=2)) as opened:
        yield opened


def test_they_answer_with_futures_and_say_where_they_judge(referees: Referees) -> None:
    right, wrong = referees.submit(small.scaled()), referees.submit(small.wrong()["wrong_everywhere"][0])
    assert right.result().outcome is Outcome.CORRECT
    assert wrong.result().outcome is Outcome.MISMATCH
    assert referees.environment().backend == "emulator"


def test_one_that_is_killed_is_replaced_and_its_candidate_judged_again(referees: Referees) -> None:
    referees.submit(small.scaled()).result()
    killed = next(one.process.pid for one in referees._running.values() if isinstance(one, LocalReferee))
    assert killed is not None
    waiting = [referees.submit(small.scaled(f"s{i}")) for i in range(2)]
    os.kill(killed, signal.SIGKILL)
    assert [one.result().outcome for one in waiting] == [Outcome.CORRECT] * 2


def test_a_candidate_beyond_the_limit_is_our_failure_and_holds_up_nobody() -> None:
    with closing(Referees(CONFIG, jobs=1, limit_s=1.0)) as opened:
        opened.environment()
        endless = opened.submit(small.scaled(fast=FOR_EVER)).result()
        assert endless.outcome is Outcome.HARNESS_ERROR
        assert "within 1 s" in endless.detail
        opened._limit_s = None
        assert opened.submit(small.scaled()).result().outcome is Outcome.CORRECT


def test_closing_ends_those_at_work_and_cancels_the_rest() -> None:
    opened = Referees(CONFIG, jobs=1)
    opened.environment()
    at_work, waiting = opened.submit(small.scaled(fast=FOR_EVER)), opened.submit(small.scaled())
    time.sleep(0.5)
    opened.close()
    assert at_work.result().outcome is Outcome.HARNESS_ERROR
    with pytest.raises(CancelledError):
        waiting.result()


def test_a_machine_that_cannot_judge_is_told_by_every_future() -> None:
    with closing(Referees(JudgeConfig(backend="cuda", gpu=97), jobs=1)) as opened:
        with pytest.raises(KcurateError):
            opened.environment()
        with pytest.raises(KcurateError):
            opened.submit(small.scaled()).result()
