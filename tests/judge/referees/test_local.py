"""Referees: futures, the time limit of a candidate, and what happens when a referee dies."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import small

from kcurate.errors import BackendError, KcurateError
from kcurate.judge.judging import JudgeConfig, harness_verdict
from kcurate.judge.referees.local import LocalReferee, RefereeLost, Referees
from kcurate.records import Candidate, Environment, Outcome, Verdict

CONFIG = JudgeConfig(backend="emulator", spares=1)
FOR_EVER = small.SCALE.replace("if (i < n)", "while (n) if (i < n)")


@pytest.fixture(scope="module")
def referees() -> Iterator[Referees]:
    with closing(Referees(CONFIG, jobs=2)) as opened:
        yield opened


@pytest.mark.slow
def test_referees_return_future_verdicts_and_their_environment(referees: Referees) -> None:
    right, wrong = referees.submit(small.scaled()), referees.submit(small.wrong()["wrong_everywhere"][0])
    assert right.result().outcome is Outcome.CORRECT
    assert wrong.result().outcome is Outcome.MISMATCH
    assert referees.environment().backend == "emulator"


def test_a_killed_referee_is_replaced_and_its_candidate_judged_again(referees: Referees) -> None:
    referees.submit(small.scaled()).result()
    killed = next(one.process.pid for one in referees._running.values() if isinstance(one, LocalReferee))
    assert killed is not None
    waiting = [referees.submit(small.scaled(f"s{i}")) for i in range(2)]
    os.kill(killed, signal.SIGKILL)
    assert [one.result().outcome for one in waiting] == [Outcome.CORRECT] * 2


def test_candidates_with_one_reference_go_to_one_referee() -> None:
    hired: list[_Noting] = []
    begin = threading.Event()

    class _Noting:
        def __init__(self, config: JudgeConfig) -> None:
            self.seen: list[str] = []
            hired.append(self)

        def environment(self) -> Environment:
            return Environment("emulator", "none")

        def judge(self, candidate: Candidate, limit_s: float | None) -> Verdict:
            assert begin.wait(30)
            self.seen.append(candidate.slow.code)
            time.sleep(0.01)
            return harness_verdict(candidate, CONFIG, "")

        def stop(self, *, now: bool) -> None:
            assert self in hired

    one = small.scaled()
    made = [replace(one, slow=replace(one.slow, code=f"{k % 3}")) for k in range(30)]
    random.Random(0).shuffle(made)
    with closing(Referees(CONFIG, jobs=3, hire=_Noting)) as opened:
        waiting = [opened.submit(candidate) for candidate in made]
        begin.set()
        assert all(future.result() for future in waiting)
    assert sum(len(referee.seen) for referee in hired) == 30
    changes = sum(a != b for referee in hired for a, b in pairwise(referee.seen))
    assert changes <= 9  # about 18 in order of arrival


@pytest.mark.slow
def test_a_candidate_past_the_limit_gets_harness_error_and_the_next_is_judged() -> None:
    with closing(Referees(CONFIG, jobs=1, limit_s=1.0)) as opened:
        opened.environment()
        endless = opened.submit(small.scaled(fast=FOR_EVER)).result()
        assert endless.outcome is Outcome.HARNESS_ERROR
        assert "within 1 s" in endless.detail
        opened._limit_s = None
        assert opened.submit(small.scaled()).result().outcome is Outcome.CORRECT


def test_closing_kills_busy_referees_and_cancels_queued_candidates() -> None:
    opened = Referees(CONFIG, jobs=1)
    opened.environment()
    at_work, waiting = opened.submit(small.scaled(fast=FOR_EVER)), opened.submit(small.scaled())
    while not at_work.running():
        time.sleep(0.01)
    opened.close()
    assert at_work.result().outcome is Outcome.HARNESS_ERROR
    for never in (waiting, opened.submit(small.scaled())):
        with pytest.raises(CancelledError):
            never.result()


@pytest.mark.slow
def test_every_future_raises_when_the_machine_cannot_judge() -> None:
    with closing(Referees(JudgeConfig(backend="cuda", gpu=97), jobs=1)) as opened:
        with pytest.raises(KcurateError):
            opened.environment()
        with pytest.raises(KcurateError):
            opened.submit(small.scaled()).result()


def run_script(folder: Path, *lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script that judges six candidates in three processes, without `if __name__ == "__main__"`."""
    script = folder / "judges.py"
    head = (
        "import sys, small",
        "from kcurate.errors import BackendError, KcurateError",
        "from kcurate.judge import JudgeConfig, judge_many",
        "candidates = [(i, small.scaled(f's{i}')) for i in range(6)]",
    )
    tail = (
        "try:",
        "    for i, verdict in judge_many(candidates, JudgeConfig('emulator', spares=1), jobs=3):",
        "        print(i, verdict.outcome)",
        "except KcurateError as error:",
        "    sys.exit(str(error))",
    )
    script.write_text("\n".join((*head, *lines, *tail)))
    return subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_a_script_without_a_main_guard_judges(tmp_path: Path) -> None:
    """Judging processes do not import the script that asks for them."""
    ended = run_script(tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(ended.stdout.splitlines()) == [f"{i} correct" for i in range(6)]


def test_without_a_compiler_the_run_ends_with_one_line(tmp_path: Path) -> None:
    ended = run_script(tmp_path, PATH=str(tmp_path), CXX="", KCURATE_CXX="")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert len(ended.stderr.splitlines()) == 1
    assert "compiler" in ended.stderr


@pytest.mark.parametrize(
    "how", ["ulimit -v 60000", "ulimit -v 110000", "ulimit -v 150000", "kill -9 $$", "exit 3"]
)
def test_processes_that_die_at_start_up_end_the_run_with_one_line(tmp_path: Path, how: str) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n{how}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    ended = run_script(tmp_path, f"sys.executable = {str(python)!r}")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "judging process" in ended.stderr and "kcurate doctor" in ended.stderr


def test_of_what_a_judging_process_prints_the_last_line_is_said(tmp_path: Path) -> None:
    ended = run_script(tmp_path, f"sys.executable = {str(printing(tmp_path))!r}")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert len(ended.stderr.splitlines()) == 1
    assert "(exit code 3): the last of 400 lines" in ended.stderr


def printing(folder: Path) -> Path:
    """A Python that prints much and ends."""
    python = folder / "python"
    python.write_text(
        "#!/bin/sh\nyes line | head -399 >&2\necho the last of 400 lines >&2\necho >&2\nexit 3\n"
    )
    python.chmod(0o755)
    return python


def test_a_process_that_cannot_be_started_fails_all_candidates_at_once() -> None:
    attempts: list[JudgeConfig] = []

    def hire(config: JudgeConfig) -> LocalReferee:
        attempts.append(config)
        raise BackendError("cannot start a judging process: no memory")

    with closing(Referees(CONFIG, jobs=2, hire=hire)) as opened:
        waiting = [opened.submit(small.scaled(f"s{i}")) for i in range(40)]
        for future in waiting:
            with pytest.raises(BackendError, match="no memory"):
                future.result(timeout=30)
    assert len(attempts) < 12  # at start-up, and for those that were submitted meanwhile


class Placeless:
    """A referee for the first who asks; it dies with its first candidate, and nobody gets a second one."""

    hired = 0

    def __init__(self, config: JudgeConfig) -> None:
        type(self).hired += 1
        self.number = type(self).hired

    def environment(self) -> Environment:
        if self.number > 2:
            raise RefereeLost("no place")
        return Environment("emulator", "here")

    def judge(self, candidate: Candidate, limit_s: float | None) -> Verdict:
        if self.number == 1:
            raise RefereeLost("its node died")
        return Verdict(candidate.id, "key", Outcome.CORRECT, Environment("emulator", "here"))

    def stop(self, *, now: bool) -> None:
        pass


def test_a_candidate_whose_referee_cannot_be_replaced_goes_to_another() -> None:
    with closing(Referees(JudgeConfig("emulator"), jobs=2, hire=Placeless)) as referees:
        pending = [referees.submit(small.scaled(f"s{i}")) for i in range(6)]
        assert {one.result(timeout=30).outcome for one in pending} == {Outcome.CORRECT}
