"""Takes requests and sees them to their end: on disk first, equal ones once, a place in the queue per answer.

A job that nobody waits for, and of which nobody holds the id, is dropped. What hostile answers do happens in
the judges' workers; here they are only read. Not covered: HTTP (`app`), judging (`kcurate.train.reward`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from kcurate import prompts
from kcurate.client import Answer, Job, Request, Result, job_of
from kcurate.core import store
from kcurate.errors import BackendError, InputError, KcurateError
from kcurate.records import Outcome
from kcurate.serve.catalog import Catalog, own_task
from kcurate.serve.job_log import JobLog
from kcurate.train.evaluation.completions import given_hash
from kcurate.train.reward import schemes
from kcurate.train.reward.feedback import feedback_on
from kcurate.train.reward.pool import RewardPool
from kcurate.train.task import Judged, Task
from kcurate.verdicts.keys import PROTOCOL

T = TypeVar("T")

MOST_ANSWERS = 256
# Outcomes that may be different the next time: a repeated request is judged again.
_OPEN = frozenset({Outcome.HARNESS_ERROR.value, Outcome.AMBIGUOUS_TIMING.value})
_REQUEST = TypeAdapter(Request)


class UnknownTaskError(InputError):
    """A request names a task that this server does not have."""


class UnwrittenError(BackendError):
    """A job cannot be written, so it is not acknowledged."""


class QueueFullError(BackendError):
    """There is no place for so many more answers."""


@dataclass
class _Open:
    """A job that has not ended. `kept`: somebody has its id; `taken`: it is on disk.

    `own`: the task of the request's own problem.
    """

    request: Request
    tasks: Sequence[Task]
    own: Task | None
    kept: bool = False
    waiting: int = 0
    number: int = 0
    taken: asyncio.Future[None] = field(default_factory=asyncio.Future)
    ended: asyncio.Task[Job] | None = None


class Desk:
    """The jobs of one server. Its methods are for one event loop; `queue`: answers in open jobs at most."""

    def __init__(self, pool: RewardPool, catalog: Catalog, log: JobLog, queue: int) -> None:
        self.pool, self.catalog, self.queue = pool, catalog, queue
        self.outcomes, self.states = Counter[str](), Counter[str]()
        self.cached, self.judge_s = 0, 0.0
        self.environment = pool.environment()
        self._log = log
        self._open: dict[str, _Open] = {}
        self._unwritten: dict[str, Job] = {}
        self._closing = False

    @property
    def jobs(self) -> int:
        """Jobs that have not ended."""
        return len(self._open)

    @property
    def waiting(self) -> int:
        """Answers in jobs that have not ended."""
        return sum(len(one.request.answers) for one in self._open.values())

    async def resume(self) -> int:
        """Go on with the jobs that the last server took and did not end; their number."""
        taken = await asyncio.to_thread(self._log.open_jobs)
        for job_id, (data, asked_of) in taken.items():
            try:
                request = _request(data)
                found = await asyncio.to_thread(self._tasks_of, request)
                if asked_of not in (None, _hash_of(found[0])):
                    raise InputError("a task has changed since the request was taken", hint="send it again")
            except InputError as error:  # such as a task that this server no longer has
                await self._on_disk(self._log.end, job_id, asdict(Job(job_id, "failed", (), str(error))))
                continue
            one = self._open[job_id] = _Open(request, *found, kept=True)
            one.taken.set_result(None)
            one.ended = self._started(self._run(job_id, one))
        return len(taken)

    async def judge(self, request: Request, gone: asyncio.Future[None], limit_s: float) -> Job:
        """Take a job, or join the same one; wait for its end if the request says so.

        `gone`: done when the caller has left. After `limit_s` seconds the job goes on without the caller.

        Raises:
            UnknownTaskError, QueueFullError, UnwrittenError: see there. InputError: the request cannot be
            judged.
        """
        asked = {key: value for key, value in asdict(request).items() if key != "wait"}
        text = json.dumps(asked, sort_keys=True)
        tasks, own = await asyncio.to_thread(self._tasks_of, request)
        asked_of = await asyncio.to_thread(_hash_of, tasks)
        job_id = store.content_id("job", PROTOCOL, self.environment.device, asked_of, text)
        if job_id not in self._open:
            known = await self._ended(job_id)
            if known is not None and _stands(known):
                return known
            if job_id not in self._open:
                if self.waiting + len(tasks) > self.queue:
                    what = f"{self.waiting} answers are waiting, of at most {self.queue}"
                    raise QueueFullError(what, hint="try again later")
                one = self._open[job_id] = _Open(request, tasks, own)
                one.ended = self._started(self._run(job_id, one, (asked, asked_of)))
        return await self._awaited(job_id, self._open[job_id], gone, limit_s if request.wait else 0.0)

    async def look(self, job_id: str, gone: asyncio.Future[None], limit_s: float) -> Job | None:
        """A job, waiting up to `limit_s` seconds for its end; None: there is no such job."""
        if (one := self._open.get(job_id)) is not None:
            return await self._awaited(job_id, one, gone, limit_s)
        return await self._ended(job_id)

    async def close(self) -> None:
        """Stop; jobs that have not ended stay on disk for the next server."""
        self._closing = True
        under_way = [one.ended for one in self._open.values() if one.ended is not None]
        for ended in under_way:
            ended.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        self._log.close()

    async def _awaited(self, job_id: str, one: _Open, gone: asyncio.Future[None], limit_s: float) -> Job:
        """The job, ended or as it stands; once a caller has its id, it is kept."""
        assert one.ended is not None, "it was started with the job"
        one.waiting += 1
        try:
            await asyncio.shield(one.taken)
            if limit_s:
                both: set[asyncio.Future[Any]] = {one.ended, gone}
                await asyncio.wait(both, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            one.kept |= not gone.done()
        finally:
            one.waiting -= 1
            if not (one.waiting or one.kept or one.ended.done() or self._closing):
                await self._drop(job_id, one)
        ended = one.ended.done() and not one.ended.cancelled()  # cancelled: dropped, or the server stops
        return one.ended.result() if ended else Job(job_id, "waiting")

    async def _drop(self, job_id: str, one: _Open) -> None:
        assert one.ended is not None, "it was started with the job"
        self._open.pop(job_id, None)
        self.states["left"] += 1
        one.ended.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await one.ended
        await self._on_disk(self._log.leave, job_id, one.number)

    @staticmethod
    def _started(running: Coroutine[Any, Any, Job]) -> asyncio.Task[Job]:
        """A task whose exception may go unread."""
        task = asyncio.create_task(running)
        task.add_done_callback(lambda one: None if one.cancelled() else one.exception())
        return task

    async def _ended(self, job_id: str) -> Job | None:
        """A job that has ended, or None."""
        if (unwritten := self._unwritten.get(job_id)) is not None:
            return unwritten
        known = await asyncio.to_thread(self._log.find, job_id)
        return None if known is None else job_of(known)

    async def _run(self, job_id: str, one: _Open, asked: tuple[Any, str] | None = None) -> Job:
        try:
            if asked is not None:
                try:
                    one.number = await self._on_disk(self._log.take, job_id, *asked)
                except KcurateError as error:
                    one.taken.set_exception(error)
                    raise
                one.taken.set_result(None)
            job = await self._judged(job_id, one)
            self._unwritten.pop(job_id, None)
            try:
                await self._on_disk(self._log.end, job_id, asdict(job))
            except (
                UnwrittenError
            ):  # it was acknowledged; on disk it is still open, so the next server ends it
                self._unwritten[job_id] = job
        finally:
            if self._open.get(job_id) is one:
                del self._open[job_id]
        self.states[job.state] += 1
        return job

    async def _on_disk(self, write: Callable[..., T], *line: Any) -> T:
        try:
            return await asyncio.to_thread(write, *line)
        except InputError as error:
            raise UnwrittenError(error.what, where=error.where, hint=error.hint) from error

    async def _judged(self, job_id: str, one: _Open) -> Job:
        request = one.request
        try:
            if one.own is not None:
                verdict = await self.pool.judge(one.own)
                if not verdict.outcome.correct:
                    failed = verdict.outcome is Outcome.HARNESS_ERROR
                    why = f"the problem is not admitted: {verdict.outcome}: {verdict.detail}"
                    return Job(job_id, "failed" if failed else "refused", (), _text(why))
            scheme = schemes.make(request.scheme, request.values)
            judged = await self.pool.score(one.tasks, [_reply(a) for a in request.answers], scheme=scheme)
        except KcurateError as error:
            return Job(job_id, "failed", (), _text(str(error)))
        results = tuple(_result(a.task, found) for a, found in zip(request.answers, judged, strict=True))
        self.outcomes.update(found.outcome for found in results)
        self.cached += sum(found.cached for found in results)
        self.judge_s += sum(found.judge_s for found in results)
        return Job(job_id, "done", results)

    def _tasks_of(self, request: Request) -> tuple[list[Task], Task | None]:
        """The task of each answer, and that of the request's own problem.

        Raises:
            UnknownTaskError: there is no such task. InputError: the request cannot be judged.
        """
        schemes.make(request.scheme, request.values)
        if not 1 <= len(request.answers) <= MOST_ANSWERS:
            raise InputError(f"{len(request.answers)} answers", hint=f"1 to {MOST_ANSWERS} a request")
        own = None if request.problem is None else own_task(request.problem, self.environment.backend)
        known, found = self.catalog.tasks(), list[Task]()
        for index, one in enumerate(request.answers):
            where = f"answers[{index}]"
            if (one.reply is None) == (one.code is None):
                raise InputError("give either reply or code", where=where)
            if one.code is None and (one.plan is not None or one.buffers is not None):
                raise InputError("plan and buffers belong to code", where=where)
            task = own if one.task is None else known.get(one.task)
            if task is None and one.task is not None:
                raise UnknownTaskError(f"unknown task {one.task!r}", where=where, hint="see GET /tasks")
            if task is None:
                raise InputError("neither a task nor a problem in the request", where=where)
            found.append(task)
        return found, own


def _reply(one: Answer) -> str | prompts.Answer:
    """The answer in the form that the pool reads."""
    return one.reply if one.reply is not None else prompts.Answer(one.code or "", one.plan, one.buffers)


def _result(task: str | None, one: Judged) -> Result:
    standing = schemes.STANDINGS.get(one.outcome)
    speedup = one.verdict.speedup if one.verdict else None
    return Result(
        task=task,
        outcome=one.outcome,
        reward=one.reward,
        components=one.components,
        correct=standing is not None and standing.correct,
        speedup=speedup.ratio if speedup else None,
        low=speedup.low if speedup else None,
        high=speedup.high if speedup else None,
        feedback=_text(feedback_on(one)),
        detail=_text(one.detail),
        key=one.key or None,
        audit=one.audit,
        cheat=one.cheat,
        cached=one.cached,
        judge_s=one.judge_s,
    )


def _text(text: str) -> str:
    """Text that can be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _stands(job: Job) -> bool:
    """Whether an ended job would end the same way again."""
    fine = not any(one.outcome in _OPEN for one in job.results)
    return job.state == "refused" or (job.state == "done" and fine)


def _hash_of(tasks: Sequence[Task]) -> str:
    """Equal for requests whose tasks ask the same, and pay the same for it."""
    known = {one.id: (given_hash(one), str(one.known)) for one in tasks}
    return store.content_id("tasks", *(text for name in sorted(known) for text in (name, *known[name])))


def _request(data: Any) -> Request:
    """A request from the file of jobs.

    Raises:
        InputError: it is none.
    """
    try:
        return _REQUEST.validate_python(data)
    except (ValidationError, RecursionError) as error:
        raise InputError("not a request", hint="send it again") from error
