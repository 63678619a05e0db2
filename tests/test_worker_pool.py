"""Workers that crash, hang or raise."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kcurate.core.worker_pool import Failure, Pool
from kcurate.errors import BackendError, InputError


def act(task: object) -> object:
    if task == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if task == "hang":
        time.sleep(60)
    if task == "compute":
        subprocess.run(["sh", "-c", "while :; do :; done"], check=False, env={"ENDLESS": "1"})
    if task == "raise":
        raise ValueError("our own fault")
    if task == "refuse":
        raise InputError("cannot write", where="work", hint="the disk is full")
    return (task, os.getpid())


def test_every_task_has_exactly_one_result_whatever_happens_to_its_worker() -> None:
    tasks = [1, "crash", 2, "hang", 3, 4]
    with Pool(2) as pool:
        results = dict(pool.run(act, tasks, timeout_s=1.5))
    assert sorted(results) == list(range(len(tasks)))
    assert [results[i][0] for i in (0, 2, 4, 5)] == [1, 2, 3, 4]
    assert (
        isinstance(results[1], Failure) and results[1].kind == "crashed" and "signal 11" in results[1].detail
    )
    assert isinstance(results[3], Failure) and results[3].kind == "timeout"


def test_a_task_has_a_budget_of_cpu_time_with_the_processes_that_it_starts() -> None:
    with Pool(2) as pool:
        started_s = time.monotonic()
        results = dict(pool.run(act, ["compute", 1], timeout_s=600, cpu_s=0.5))
    assert results[0] == Failure("timeout", "it used up its CPU time")
    assert results[1][0] == 1
    assert time.monotonic() - started_s < 60
    assert not any(map(endless, Path("/proc").glob("[0-9]*/environ")))


def endless(environment: Path) -> bool:
    try:
        return b"ENDLESS=1" in environment.read_bytes()
    except OSError:
        return False


def test_waiting_does_not_use_up_cpu_time() -> None:
    with Pool(2) as pool:
        assert len(dict(pool.run(time.sleep, [1.5, 0.1], timeout_s=60, cpu_s=1.0))) == 2


def test_a_bug_in_a_worker_is_raised() -> None:
    with Pool(2) as pool, pytest.raises(BackendError, match="raised an error"):
        list(pool.run(act, [1, "raise"], timeout_s=30))


def test_a_known_error_in_a_worker_is_raised_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    with Pool(2) as pool, pytest.raises(InputError, match="cannot write") as raised:
        list(pool.run(act, ["refuse"] * 8, timeout_s=30))
    assert str(raised.value) == "work: cannot write (the disk is full)"
    assert capfd.readouterr().err == ""


def test_one_job_stays_in_this_process_unless_isolated() -> None:
    with Pool(1) as pool:
        [(_, (_, pid))] = pool.run(act, [1], timeout_s=5)
        [(_, (_, other))] = pool.run(act, [1], timeout_s=5, isolate=True)
    assert pid == os.getpid() != other


def test_workers_persist_between_runs() -> None:
    with Pool(2) as pool:
        first = {result[1] for _, result in pool.run(act, [1, 2, 3, 4], timeout_s=30)}
        second = {result[1] for _, result in pool.run(act, [1, 2, 3, 4], timeout_s=30)}
    assert first == second


def test_a_worker_is_replaced_after_so_many_tasks() -> None:
    with Pool(2, serves=2) as pool:
        results = dict(pool.run(act, list(range(7)), timeout_s=30))
    assert [results[i][0] for i in range(7)] == list(range(7))
    processes = [pid for _, pid in results.values()]
    assert all(processes.count(pid) <= 2 for pid in processes)
