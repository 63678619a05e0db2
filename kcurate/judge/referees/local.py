"""Referees that stay: judging processes that take candidates as they come and answer with futures.

A referee is trusted: it runs `kcurate.judge.judging.Judge` and nothing of a candidate. One that dies (killed,
out of memory) is replaced and its candidate judged again; one that dies twice on the same candidate, or takes
longer than the limit, makes it a `harness_error`. Candidates against one reference go to one referee while
others have work, since its worker stays. Referees of one GPU share it through a lock
(`kcurate.judge.gpu_lock`), so that nothing else runs on it while one of them takes times. Who the referees
are is a `Hire`: processes of this machine, or actors of a Ray cluster (`kcurate.judge.referees.ray_cluster`).
Not covered: a list that is there as a whole (`kcurate.judge.referees.batch`).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Protocol

from kcurate.errors import BackendError, KcurateError
from kcurate.judge.judging import Judge, JudgeConfig, harness_verdict, reference_side
from kcurate.judge.workers.spares import KEPT_REFERENCES, side_key
from kcurate.records import Candidate, Environment, Verdict

ATTEMPTS = 2
# References that a referee is taken to know: as many as its workers stay for on a large GPU.
RECENT = KEPT_REFERENCES[0]


class Bench(Protocol):
    """Where candidates are judged: referees of this machine, or of others."""

    def submit(self, candidate: Candidate) -> Future[Verdict]:
        """The verdict to come; its exception is a `KcurateError` when nothing can be judged there at all."""
        ...

    def environment(self) -> Environment:
        """Where verdicts are made; waits for the first referee."""
        ...

    def close(self) -> None:
        """End everything; verdicts still to come never do."""
        ...


class Lost(Exception):  # noqa: N818 - an event: the referee died, or took too long
    """The referee is gone without an answer; `late`: it took too long, and is as good as gone."""

    def __init__(self, why: str, *, late: bool = False) -> None:
        super().__init__(why)
        self.late = late


class Referee(Protocol):
    """One judge somewhere. After `Lost` or a `KcurateError` it is only to be stopped."""

    def environment(self) -> Environment:
        """Where it judges, when it is ready.

        Raises:
            Lost: it died while it started. KcurateError: it cannot judge there.
        """
        ...

    def judge(self, candidate: Candidate, limit_s: float | None) -> Verdict:
        """Ask, and wait at most `limit_s` seconds (None: for ever); raises what `environment` does."""
        ...

    def stop(self, *, now: bool) -> None:
        """End it: at once, or when it is done; from any thread, more than once."""
        ...


Hire = Callable[[JudgeConfig], Referee]


@dataclass(eq=False)
class _Job:
    """A candidate that waits, the key of its reference, and the verdict to come."""

    candidate: Candidate
    reference: str
    promise: Future[Verdict] = field(default_factory=Future)


class LocalReferee:
    """A process of this machine that judges; started at once."""

    def __init__(self, config: JudgeConfig) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(config, theirs), daemon=True)
        try:
            self.process.start()
        except RuntimeError as error:  # raised in a process that was itself just spawned
            raise BackendError(
                "a script that judges starts itself again in each judging process",
                hint='let it begin under `if __name__ == "__main__":`',
            ) from error
        except OSError as error:
            raise BackendError(f"cannot start a judging process: {error}") from error
        finally:
            theirs.close()

    def environment(self) -> Environment:
        """See `Referee`."""
        found = self._receive(None)
        assert isinstance(found, Environment)
        return found

    def judge(self, candidate: Candidate, limit_s: float | None) -> Verdict:
        """See `Referee`."""
        with contextlib.suppress(OSError):  # a dead referee is noticed when its answer is read
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
        self.process.join()

    def _receive(self, limit_s: float | None) -> object:
        try:
            if limit_s is not None and not self._connection.poll(limit_s):
                raise Lost(f"no verdict within {limit_s:.0f} s", late=True)
            answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise Lost("the judging process died twice") from error
        if isinstance(answer, KcurateError):
            raise answer
        return answer


class Referees:
    """`jobs` referees spread over `gpus`, hired at once. `limit_s`: what one candidate may take in all.

    Safe to use from many threads. `close` it; an exit without it takes them down too.
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
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._attend, args=(i, one), name=f"referee-{i}", daemon=True)
            for i, one in enumerate(configs)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, candidate: Candidate) -> Future[Verdict]:
        """The verdict to come; its exception is a `KcurateError` when this machine cannot judge at all."""
        job = _Job(candidate, side_key(candidate, reference_side(candidate)))
        with self._more:
            if self._closed:
                job.promise.cancel()
            else:
                self._waiting.append(job)
                self._more.notify()
        return job.promise

    def environment(self) -> Environment:
        """Where verdicts are made.

        Raises:
            KcurateError: this machine cannot judge at all.
        """
        return self._opened.result()

    def close(self) -> None:
        """End all referees, those at work at once; verdicts still to come are cancelled."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        with self._more:
            for job in self._waiting:
                job.promise.cancel()
            self._waiting.clear()
            self._more.notify_all()
        for referee in running:
            referee.stop(now=True)
        for thread in self._threads:
            thread.join()

    def _attend(self, number: int, config: JudgeConfig) -> None:
        """A thread's life: a referee, and candidates for it one by one."""
        try:
            self._open(number, config)
        except (Lost, KcurateError) as error:
            what = error if isinstance(error, KcurateError) else _no_start()
            with contextlib.suppress(InvalidStateError):
                self._opened.set_exception(what)
        while (job := self._next(number)) is not None:
            if job.promise.set_running_or_notify_cancel():
                try:
                    job.promise.set_result(self._verdict(number, config, job.candidate))
                except KcurateError as error:
                    job.promise.set_exception(error)
        with self._lock:
            referee = self._running.pop(number, None)
        if referee is not None:
            referee.stop(now=False)

    def _next(self, number: int) -> _Job | None:
        """The next job: one against a reference that this referee knows, else one that no other knows."""
        with self._more:
            while not self._waiting:
                if self._closed:
                    return None
                self._more.wait()
            own, others = self._recent[number], {key for keys in self._recent for key in keys}
            job = min(self._waiting, key=lambda job: (job.reference not in own, job.reference in others))
            self._waiting.remove(job)
            if job.reference in own:
                own.remove(job.reference)
            own.append(job.reference)
            return job

    def _verdict(self, number: int, config: JudgeConfig, candidate: Candidate) -> Verdict:
        why = ""
        for _ in range(ATTEMPTS):
            try:
                return self._open(number, config).judge(candidate, self._limit_s)
            except Lost as lost:
                why = str(lost)
                self._discard(number)
                if lost.late or self._closed:
                    break
            except KcurateError:
                self._discard(number)
                raise
        return harness_verdict(candidate, config, why)

    def _open(self, number: int, config: JudgeConfig) -> Referee:
        """The thread's referee, hired when there is none."""
        if (referee := self._running.get(number)) is not None:
            return referee
        with self._lock:
            if self._closed:
                raise Lost("closed")
            referee = self._running[number] = self._hire(config)
        try:
            environment = referee.environment()
        except (Lost, KcurateError):
            self._discard(number)
            raise
        with contextlib.suppress(InvalidStateError):
            self._opened.set_result(environment)
        return referee

    def _discard(self, number: int) -> None:
        """End the thread's referee."""
        with self._lock:
            referee = self._running.pop(number, None)
        if referee is not None:
            referee.stop(now=True)


def _no_start() -> KcurateError:
    return BackendError("a judging process died while it started", hint="run kcurate doctor")


def _serve(config: JudgeConfig, connection: Connection) -> None:
    """A referee's life: say where it judges, then answer candidates until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with contextlib.closing(Judge(config)) as judge:
            connection.send(judge.environment())
            while judge.usable:
                verdict = judge.judge(connection.recv())
                if judge.usable:  # else this verdict may be about us: another referee judges again
                    connection.send(verdict)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return
    except KcurateError as error:
        with contextlib.suppress(OSError):
            connection.send(error)
