"""Many candidates at once: referees, one a process, each with workers of its own.

A referee is trusted: it runs `kcurate.judge.judge.Judge` and nothing of a candidate. Referees of one GPU
share it through a lock (`kcurate.judge.gpu_lock`), so that nothing else runs on it while one of them takes
times. A referee that dies (killed, out of memory) is replaced and its candidate judged again; one that dies
twice on the same candidate makes it a `harness_error`. Not covered: what is written where
(`kcurate.validate`), machines other than this one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from kcurate.errors import KcurateError
from kcurate.judge.judge import Judge, JudgeConfig, harness_verdict
from kcurate.records import Candidate, Environment, Verdict

ATTEMPTS = 2
# Referees a GPU: one takes times while the others compile, prepare and compare.
REFEREES_PER_GPU = 6


@dataclass
class _Referee:
    process: BaseProcess
    connection: Connection
    config: JudgeConfig
    task: tuple[int, Candidate] | None = None


def default_jobs(backend: str, gpus: int) -> int:
    """How many referees suit this machine."""
    cores = len(os.sched_getaffinity(0))
    return cores if backend == "emulator" else max(gpus, min(REFEREES_PER_GPU * gpus, cores // 2))


def judge_many(
    candidates: Iterable[tuple[int, Candidate]], config: JudgeConfig, *, gpus: tuple[int, ...], jobs: int
) -> Iterator[tuple[int, Verdict]]:
    """Judge every candidate; yields (its number, verdict) in the order in which they are done.

    Raises:
        KcurateError: this machine cannot judge at all (no compiler, no such GPU).
    """
    waiting = deque(candidates)
    jobs = min(jobs, len(waiting))
    if jobs <= 1:
        yield from _in_this_process(waiting, replace(config, gpu=gpus[0]))
        return
    attempts: dict[int, int] = {}
    context = multiprocessing.get_context("spawn")
    referees = [_start(context, replace(config, gpu=gpus[i % len(gpus)])) for i in range(jobs)]
    try:
        for referee in referees:
            _hand_out(referee, waiting)
        while busy := [referee for referee in referees if referee.task is not None]:
            for connection in wait([referee.connection for referee in busy]):
                referee = next(r for r in busy if r.connection is connection)
                assert referee.task is not None
                index, candidate = referee.task
                verdict = _result(referee)
                if verdict is None:
                    referees.remove(referee)
                    referee = _start(context, referee.config)
                    referees.append(referee)
                    attempts[index] = attempts.get(index, 0) + 1
                    if attempts[index] < ATTEMPTS:
                        waiting.appendleft((index, candidate))
                        _hand_out(referee, waiting)
                        continue
                    verdict = harness_verdict(candidate, config, "the judging process died twice")
                _hand_out(referee, waiting)
                yield index, verdict
    finally:
        for referee in referees:
            _stop(referee)


def _in_this_process(
    waiting: Iterable[tuple[int, Candidate]], config: JudgeConfig
) -> Iterator[tuple[int, Verdict]]:
    judge = Judge(config)
    try:
        for index, candidate in waiting:
            verdict = judge.judge(candidate)
            if not judge.usable:
                judge.close()
                judge = Judge(config)
                verdict = judge.judge(candidate)
            yield index, verdict
    finally:
        judge.close()


def _start(context: multiprocessing.context.SpawnContext, config: JudgeConfig) -> _Referee:
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(config, theirs), daemon=False)
    process.start()
    theirs.close()
    return _Referee(process, ours, config)


def _serve(config: JudgeConfig, connection: Connection) -> None:
    """A referee's life: answer candidates with verdicts until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with contextlib.closing(Judge(config)) as judge:
            while judge.usable:
                verdict = judge.judge(connection.recv())
                if judge.usable:  # else this verdict may be about us: another referee judges again
                    connection.send(verdict)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return
    except KcurateError as error:
        with contextlib.suppress(OSError):
            connection.send(error)


def _hand_out(referee: _Referee, waiting: deque[tuple[int, Candidate]]) -> None:
    referee.task = waiting.popleft() if waiting else None
    if referee.task is not None:
        with contextlib.suppress(OSError):  # a dead referee is noticed when its answer is read
            referee.connection.send(referee.task[1])


def _result(referee: _Referee) -> Verdict | None:
    """The verdict; None when the referee is dead.

    Raises:
        KcurateError: it cannot judge on this machine.
    """
    try:
        answer = referee.connection.recv()
    except (EOFError, OSError):
        referee.process.join()
        referee.connection.close()
        return None
    if isinstance(answer, KcurateError):
        raise answer
    assert isinstance(answer, Verdict)
    return answer


def _stop(referee: _Referee) -> None:
    referee.connection.close()
    if referee.task is not None:
        referee.process.kill()
    referee.process.join()


def describe_environment(config: JudgeConfig) -> Environment:
    """Where verdicts of this configuration are made (opens a worker on the device for a moment)."""
    with contextlib.closing(Judge(config)) as judge:
        return judge.environment()
