"""Referees: long-lived judging processes that accept candidates at any time and return futures.

A referee is a trusted process with a `kcurate.judge.judging.Judge`; it loads no candidate's code. A referee
that dies is replaced, unless there is no place for another while others go on. Its candidate is judged again;
after two deaths on one candidate, or past the time limit, the verdict is `harness_error`. Candidates with the
same reference preferably go to the same referee, which keeps that reference's worker. A referee that cannot
start fails every queued candidate with its one error, so that the run ends. Referees share a GPU through
`kcurate.judge.gpu_lock`. Not covered: actors on a Ray cluster (`kcurate.judge.referees.ray_cluster`), a list
of candidates (`kcurate.judge.referees.batch`).
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Protocol

from kcurate.core import store
from kcurate.errors import BackendError, KcurateError
from kcurate.judge.judging import Judge, JudgeConfig, harness_verdict, reference_side
from kcurate.judge.workers.spares import KEPT_REFERENCES
from kcurate.records import Candidate, Environment, Verdict

ATTEMPTS = 2
LAST_BYTES = 2000
START_HINT = "run kcurate doctor; if memory is short, ask for fewer with --jobs"
# Not `multiprocessing.Process`: that would import the caller's script, which may judge on import.
BOOT = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from multiprocessing.connection import Connection
sys.path[:] = json.loads(sys.argv[1])
connection = Connection(int(sys.argv[2]))
try:
    from kcurate.judge.referees.local import referee_main
except Exception as error:
    try:
        connection.send(f"{type(error).__name__}: {error}")
    except Exception:
        sys.exit(1)  # no memory even for that; whoever waits reads that this process has died
else:
    referee_main(connection)
"""
# References that a referee is assumed to have workers for: as many as it keeps on a large GPU.
RECENT = KEPT_REFERENCES[0]


class JudgeExecutor(Protocol):
    """Judges candidates asynchronously, as a `concurrent.futures.Executor` runs calls; see `Referees`."""

    def submit(self, candidate: Candidate) -> Future[Verdict]:
        """A future verdict; it raises `KcurateError` if no candidate can be judged at all."""
        ...

    def environment(self) -> Environment:
        """The environment of the verdicts; waits for the first referee."""
        ...

    def close(self) -> None:
        """End all referees; pending verdicts never arrive."""
        ...


class RefereeLost(Exception):  # noqa: N818 - an event: the referee died, or took too long
    """The referee died, or, if `late`, did not answer in time."""

    def __init__(self, why: str, *, late: bool = False) -> None:
        super().__init__(why)
        self.late = late


class Referee(Protocol):
    """One judge, here or elsewhere. After `RefereeLost` or a `KcurateError` it can only be stopped."""

    def environment(self) -> Environment:
        """The environment of its verdicts; waits until it is ready.

        Raises:
            RefereeLost: it died during start-up. KcurateError: it cannot judge there.
        """
        ...

    def judge(self, candidate: Candidate, limit_s: float | None) -> Verdict:
        """Judge, for at most `limit_s` seconds (None: no limit); raises as `environment` does."""
        ...

    def stop(self, *, now: bool) -> None:
        """End it at once, or after its current candidate. May be called from any thread, repeatedly."""
        ...


Hire = Callable[[JudgeConfig], Referee]


@dataclass(eq=False)
class _Job:
    """A queued candidate, the key of its reference, its future verdict, and how many referees died on it."""

    candidate: Candidate
    reference: str
    future: Future[Verdict] = field(default_factory=Future)
    losses: int = 0


class LocalReferee:
    """A judging process on this machine."""

    def __init__(self, config: JudgeConfig) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        # Of what it and its workers print, no line is for the user but the last of one that died.
        with tempfile.TemporaryFile() as printed:
            self._printed = os.dup(printed.fileno())
        weakref.finalize(self, os.close, self._printed)
        command = [sys.executable, "-c", BOOT, json.dumps(sys.path), str(theirs.fileno())]
        try:
            self.process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stderr=self._printed
            )
        except OSError as error:
            raise BackendError(
                f"cannot start a judging process: {error}", hint="ask for fewer with --jobs"
            ) from error
        finally:
            theirs.close()
        weakref.finalize(self, self.process.kill)  # at the latest when this process ends
        with contextlib.suppress(OSError):  # reading the answer of a dead referee raises `RefereeLost`
            self._connection.send(config)

    def environment(self) -> Environment:
        """See `Referee`."""
        try:
            environment = self._receive(None)
        except RefereeLost as lost:
            text = f"a judging process died during start-up (exit code {self.process.wait()})"
            raise RefereeLost(": ".join(filter(None, (text, self._last_words())))) from lost
        if isinstance(environment, str):
            raise BackendError(f"a judging process cannot start: {_last_line(environment)}", hint=START_HINT)
        assert isinstance(environment, Environment)
        return environment

    def judge(self, candidate: Candidate, limit_s: float | None) -> Verdict:
        """See `Referee`."""
        with contextlib.suppress(OSError):  # reading the answer of a dead referee raises `RefereeLost`
            self._connection.send(candidate)
        answer = self._receive(limit_s)
        assert isinstance(answer, Verdict)
        return answer

    def stop(self, *, now: bool) -> None:
        """See `Referee`."""
        if now:
            self.process.kill()
        else:
            self._connection.close()
        self.process.wait()

    def _last_words(self) -> str:
        """The last line that it printed."""
        end = os.fstat(self._printed).st_size
        return _last_line(
            os.pread(self._printed, LAST_BYTES, max(0, end - LAST_BYTES)).decode(errors="replace")
        )

    def _receive(self, limit_s: float | None) -> object:
        try:
            if limit_s is not None and not self._connection.poll(limit_s):
                raise RefereeLost(f"no verdict within {limit_s:.0f} s", late=True)
            answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise RefereeLost("the judging process died twice") from error
        if isinstance(answer, KcurateError):
            raise answer
        return answer


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "")


class Referees:
    """`jobs` referees spread over `gpus`, started at once. `limit_s`: the total time limit of one candidate.

    Thread safe. Call `close` at the end; the referees also die with this process.
    """

    def __init__(
        self,
        config: JudgeConfig,
        *,
        gpus: Sequence[int] = (0,),
        jobs: int = 1,
        limit_s: float | None = None,
        hire: Hire = LocalReferee,
    ) -> None:
        self._limit_s = limit_s
        self._hire = hire
        self._waiting: list[_Job] = []
        self._more = threading.Condition()
        self._recent = [deque[str](maxlen=RECENT) for _ in range(jobs)]
        self._opened: Future[Environment] = Future()
        self._closed = False
        configs = [replace(config, gpu=gpus[i % len(gpus)]) for i in range(jobs)]
        self._running: dict[int, Referee] = {}
        self._active = set(range(jobs))
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run_jobs, args=(i, on_gpu), name=f"referee-{i}", daemon=True)
            for i, on_gpu in enumerate(configs)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, candidate: Candidate) -> Future[Verdict]:
        """A future verdict; it raises `KcurateError` if this machine cannot judge at all."""
        job = _Job(candidate, store.side_key(candidate, reference_side(candidate)))
        with self._more:
            if self._closed:
                job.future.cancel()
            else:
                self._waiting.append(job)
                self._more.notify()
        return job.future

    def environment(self) -> Environment:
        """The environment of the verdicts; waits for the first referee.

        Raises:
            KcurateError: this machine cannot judge at all.
        """
        return self._opened.result()

    def close(self) -> None:
        """Kill all referees and cancel the queued candidates."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        with self._more:
            for job in self._waiting:
                job.future.cancel()
            self._waiting.clear()
            self._more.notify_all()
        for referee in running:
            referee.stop(now=True)
        for thread in self._threads:
            thread.join()

    def _run_jobs(self, number: int, config: JudgeConfig) -> None:
        """One thread: start a referee and give it candidates one by one."""
        while self._ready(number, config) and (job := self._next(number)) is not None:
            if job.losses or job.future.set_running_or_notify_cancel():
                self._settle(number, config, job)
        with self._lock:
            referee = self._running.pop(number, None)
        if referee is not None:
            referee.stop(now=False)

    def _ready(self, number: int, config: JudgeConfig) -> bool:
        """Start the thread's referee if there is none; False if there is no place for it and others go on."""
        try:
            self._open(number, config)
        except KcurateError as error:
            self._fail_all(error)
        except RefereeLost as lost:
            with self._lock:
                if self._active - {number} and not self._closed:
                    self._active.remove(number)
                    return False
            self._fail_all(BackendError(str(lost), hint=START_HINT))
        return True

    def _fail_all(self, error: KcurateError) -> None:
        """No referee could be started: that is the answer to `environment` and to every queued candidate."""
        with contextlib.suppress(InvalidStateError):
            self._opened.set_exception(error)
        with self._more:
            jobs, self._waiting = self._waiting, []
        for job in jobs:
            if job.losses or job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)

    def _settle(self, number: int, config: JudgeConfig, job: _Job) -> None:
        """Give a job its verdict; if the referee is lost, the job goes back to the queue for any of them."""
        try:
            job.future.set_result(self._open(number, config).judge(job.candidate, self._limit_s))
        except RefereeLost as lost:
            self._discard(number)
            job.losses += 1
            if lost.late or self._closed or job.losses >= ATTEMPTS:
                job.future.set_result(harness_verdict(job.candidate, config, str(lost)))
                return
            with self._more:
                self._waiting.insert(0, job)
                self._more.notify()
        except KcurateError as error:
            self._discard(number)
            job.future.set_exception(error)

    def _next(self, number: int) -> _Job | None:
        """The next job, preferably for a reference that this referee has, else one that no other has."""
        with self._more:
            while not self._waiting:
                if self._closed:
                    return None
                self._more.wait()
            recent, others = self._recent[number], {key for keys in self._recent for key in keys}
            job = min(self._waiting, key=lambda job: (job.reference not in recent, job.reference in others))
            self._waiting.remove(job)
            if job.reference in recent:
                recent.remove(job.reference)
            recent.append(job.reference)
            return job

    def _open(self, number: int, config: JudgeConfig) -> Referee:
        """The thread's referee, started if there is none."""
        if (referee := self._running.get(number)) is not None:
            return referee
        with self._lock:
            if self._closed:
                raise RefereeLost("closed")
            referee = self._running[number] = self._hire(config)
        try:
            environment = referee.environment()
        except (RefereeLost, KcurateError):
            self._discard(number)
            raise
        with contextlib.suppress(InvalidStateError):
            self._opened.set_result(environment)
        return referee

    def _discard(self, number: int) -> None:
        """Kill the thread's referee."""
        with self._lock:
            referee = self._running.pop(number, None)
        if referee is not None:
            referee.stop(now=True)


def referee_main(connection: Connection) -> None:
    """The judging process: send its environment, then judge candidates until the connection closes."""
    started = False
    try:
        with contextlib.closing(Judge(connection.recv())) as judge:
            connection.send(judge.environment())
            started = True
            while judge.usable:
                verdict = judge.judge(connection.recv())
                if judge.usable:  # else our own failure may have caused this verdict: another referee retries
                    connection.send(verdict)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return
    except KcurateError as error:
        with contextlib.suppress(OSError):
            connection.send(error)
    except (MemoryError, OSError) as error:
        if started:
            raise
        connection.send(f"{type(error).__name__}: {error}")
