"""Accepts requests as jobs and runs them: written to disk first, equal ones judged once, a bounded queue.

A job is dropped when no caller waits for it and none has its id. Answers may be hostile: here they are only
parsed, and their code runs in the judges' workers. Not covered: HTTP (`app`), judging (`kcurate.reward`).
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
from kcurate.reward import schemes
from kcurate.reward.feedback import feedback_on
from kcurate.reward.pool import RewardPool
from kcurate.reward.task import Judged, Task, given_hash
from kcurate.serve.catalog import Catalog, own_task
from kcurate.serve.job_log import JobLog
from kcurate.verdicts.keys import PROTOCOL

T = TypeVar("T")

MOST_ANSWERS = 256
# Outcomes that may differ the next time: if a request has one, repeating it judges it again.
_OPEN = frozenset({Outcome.HARNESS_ERROR.value, Outcome.AMBIGUOUS_TIMING.value})
_REQUEST = TypeAdapter(Request)


class UnknownTaskError(InputError):
    """A request names a task that this server does not have."""


class UnwrittenError(BackendError):
    """A job cannot be written, so it is not acknowledged."""


class QueueFullError(BackendError):
    """The queue has no room for the answers of a request."""


@dataclass
class _OpenJob:
    """A job that has not ended. `id_known`: a caller has its id; `on_disk`: done once it is written.

    `callers_task`: the task of the problem that the request contains.
    """

    request: Request
    tasks: Sequence[Task]
    callers_task: Task | None
    id_known: bool = False
    waiting: int = 0
    number: int = 0
    on_disk: asyncio.Future[None] = field(default_factory=asyncio.Future)
    ended: asyncio.Task[Job] | None = None


class Desk:
    """The jobs of one server, for one event loop; `queue`: the largest number of answers in open jobs."""

    def __init__(self, pool: RewardPool, catalog: Catalog, log: JobLog, queue: int) -> None:
        self.pool, self.catalog, self.queue = pool, catalog, queue
        self.outcomes, self.states = Counter[str](), Counter[str]()
        self.cached, self.judge_s = 0, 0.0
        self.environment = pool.environment()
        self._log = log
        self._open: dict[str, _OpenJob] = {}
        self._unwritten: dict[str, Job] = {}
        self._closing = False

    @property
    def jobs(self) -> int:
        """Jobs that have not ended."""
        return len(self._open)

    @property
    def waiting(self) -> int:
        """Answers in jobs that have not ended."""
        return sum(len(job.request.answers) for job in self._open.values())

    async def resume(self) -> int:
        """Continue the jobs that the last server accepted and did not end; their number."""
        accepted = await asyncio.to_thread(self._log.open_jobs)
        for job_id, (data, tasks_hash) in accepted.items():
            try:
                request = _request(data)
                tasks, callers_task = await asyncio.to_thread(self._tasks_of, request)
                if tasks_hash not in (None, _hash_of(tasks)):
                    raise InputError("a task has changed since the request was taken", hint="send it again")
            except InputError as error:  # such as a task that this server no longer has
                await self._written(self._log.end, job_id, asdict(Job(job_id, "failed", (), str(error))))
                continue
            job = self._open[job_id] = _OpenJob(request, tasks, callers_task, id_known=True)
            job.on_disk.set_result(None)
            job.ended = self._started(self._run(job_id, job))
        return len(accepted)

    async def judge(self, request: Request, gone: asyncio.Future[None], limit_s: float) -> Job:
        """Accept a request as a job, or join the job of an equal request; wait for its end if it asks to.

        `gone`: done when the caller has disconnected. After `limit_s` seconds the job continues without it.

        Raises:
            UnknownTaskError, QueueFullError, UnwrittenError: see there. InputError: the request cannot be
            judged.
        """
        data = {key: value for key, value in asdict(request).items() if key != "wait"}
        text = json.dumps(data, sort_keys=True)
        tasks, callers_task = await asyncio.to_thread(self._tasks_of, request)
        tasks_hash = await asyncio.to_thread(_hash_of, tasks)
        job_id = store.content_id("job", PROTOCOL, self.environment.device, tasks_hash, text)
        if job_id not in self._open:
            earlier = await self._ended(job_id)
            if earlier is not None and _is_final(earlier):
                return earlier
            if job_id not in self._open:  # it may have been opened during the await
                if self.waiting + len(tasks) > self.queue:
                    why = f"{self.waiting} answers are waiting, of at most {self.queue}"
                    raise QueueFullError(why, hint="try again later")
                job = self._open[job_id] = _OpenJob(request, tasks, callers_task)
                job.ended = self._started(self._run(job_id, job, (data, tasks_hash)))
        return await self._awaited(job_id, self._open[job_id], gone, limit_s if request.wait else 0.0)

    async def look(self, job_id: str, gone: asyncio.Future[None], limit_s: float) -> Job | None:
        """A job, waiting up to `limit_s` seconds for its end; None: there is no such job."""
        if (job := self._open.get(job_id)) is not None:
            return await self._awaited(job_id, job, gone, limit_s)
        return await self._ended(job_id)

    async def close(self) -> None:
        """Stop; jobs that have not ended stay on disk for the next server."""
        self._closing = True
        under_way = [job.ended for job in self._open.values() if job.ended is not None]
        for ended in under_way:
            ended.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        self._log.close()

    async def _awaited(self, job_id: str, job: _OpenJob, gone: asyncio.Future[None], limit_s: float) -> Job:
        """The job, ended or still waiting; without a caller that waits or has its id, it is dropped."""
        assert job.ended is not None, "it was started with the job"
        job.waiting += 1
        try:
            await asyncio.shield(job.on_disk)
            if limit_s:
                both: set[asyncio.Future[Any]] = {job.ended, gone}
                await asyncio.wait(both, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            job.id_known |= not gone.done()
        finally:
            job.waiting -= 1
            if not (job.waiting or job.id_known or job.ended.done() or self._closing):
                await self._drop(job_id, job)
        ended = job.ended.done() and not job.ended.cancelled()  # cancelled: dropped, or the server stops
        return job.ended.result() if ended else Job(job_id, "waiting")

    async def _drop(self, job_id: str, job: _OpenJob) -> None:
        assert job.ended is not None, "it was started with the job"
        self._open.pop(job_id, None)
        self.states["left"] += 1
        job.ended.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await job.ended
        await self._written(self._log.leave, job_id, job.number)

    @staticmethod
    def _started(running: Coroutine[Any, Any, Job]) -> asyncio.Task[Job]:
        """A task whose exception may stay unretrieved without a warning."""
        task = asyncio.create_task(running)
        task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return task

    async def _ended(self, job_id: str) -> Job | None:
        """A job that has ended, or None."""
        if (unwritten := self._unwritten.get(job_id)) is not None:
            return unwritten
        logged = await asyncio.to_thread(self._log.find, job_id)
        return None if logged is None else job_of(logged)

    async def _run(self, job_id: str, job: _OpenJob, new: tuple[Any, str] | None = None) -> Job:
        """Judge a job; `new`: its request and the hash of its tasks, if it is not on disk yet."""
        try:
            if new is not None:
                try:
                    job.number = await self._written(self._log.take, job_id, *new)
                except KcurateError as error:
                    job.on_disk.set_exception(error)
                    raise
                job.on_disk.set_result(None)
            ended = await self._judged(job_id, job)
            self._unwritten.pop(job_id, None)
            try:
                await self._written(self._log.end, job_id, asdict(ended))
            except UnwrittenError:
                # On disk the job is still open, so the next server judges it again.
                self._unwritten[job_id] = ended
        finally:
            if self._open.get(job_id) is job:
                del self._open[job_id]
        self.states[ended.state] += 1
        return ended

    async def _written(self, write: Callable[..., T], *line: Any) -> T:
        try:
            return await asyncio.to_thread(write, *line)
        except InputError as error:
            raise UnwrittenError(error.what, where=error.where, hint=error.hint) from error

    async def _judged(self, job_id: str, job: _OpenJob) -> Job:
        request = job.request
        try:
            if job.callers_task is not None:
                verdict = await self.pool.judge(job.callers_task)
                if not verdict.outcome.correct:
                    failed = verdict.outcome is Outcome.HARNESS_ERROR
                    why = f"the problem is not admitted: {verdict.outcome}: {verdict.detail}"
                    return Job(job_id, "failed" if failed else "refused", (), _text(why))
            scheme = schemes.make(request.scheme, request.values)
            judged = await self.pool.score(job.tasks, [_reply(a) for a in request.answers], scheme=scheme)
        except KcurateError as error:
            return Job(job_id, "failed", (), _text(str(error)))
        results = tuple(_result(a.task, result) for a, result in zip(request.answers, judged, strict=True))
        self.outcomes.update(result.outcome for result in results)
        self.cached += sum(result.cached for result in results)
        self.judge_s += sum(result.judge_s for result in results)
        return Job(job_id, "done", results)

    def _tasks_of(self, request: Request) -> tuple[list[Task], Task | None]:
        """The task of each answer, and the task of the problem in the request if there is one.

        Raises:
            UnknownTaskError: there is no such task. InputError: the request cannot be judged.
        """
        schemes.make(request.scheme, request.values)
        if not 1 <= len(request.answers) <= MOST_ANSWERS:
            raise InputError(f"{len(request.answers)} answers", hint=f"1 to {MOST_ANSWERS} a request")
        problem, backend = request.problem, self.environment.backend
        callers_task = None if problem is None else own_task(problem, backend)
        offered, tasks = self.catalog.tasks(), list[Task]()
        for index, answer in enumerate(request.answers):
            where = f"answers[{index}]"
            if (answer.reply is None) == (answer.code is None):
                raise InputError("give either reply or code", where=where)
            if answer.code is None and (answer.plan is not None or answer.buffers is not None):
                raise InputError("plan and buffers belong to code", where=where)
            task = callers_task if answer.task is None else offered.get(answer.task)
            if task is None and answer.task is not None:
                raise UnknownTaskError(f"unknown task {answer.task!r}", where=where, hint="see GET /tasks")
            if task is None:
                raise InputError("neither a task nor a problem in the request", where=where)
            tasks.append(task)
        return tasks, callers_task


def _reply(answer: Answer) -> str | prompts.Answer:
    """The answer in the form that the pool reads."""
    if answer.reply is not None:
        return answer.reply
    return prompts.Answer(answer.code or "", answer.plan, answer.buffers)


def _result(task: str | None, judged: Judged) -> Result:
    standing = schemes.STANDINGS.get(judged.outcome)
    speedup = judged.verdict.speedup if judged.verdict else None
    same = ("outcome", "reward", "components", "audit", "cheat", "cached", "judge_s")
    return Result(
        task=task,
        correct=standing is not None and standing.correct,
        speedup=speedup.ratio if speedup else None,
        low=speedup.low if speedup else None,
        high=speedup.high if speedup else None,
        feedback=_text(feedback_on(judged)),
        detail=_text(judged.detail),
        key=judged.key or None,
        **{name: getattr(judged, name) for name in same},
    )


def _text(text: str) -> str:
    """The text with lone surrogates replaced, so that it can be encoded as UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _is_final(job: Job) -> bool:
    """Whether judging an ended job again would give the same results."""
    final = not any(result.outcome in _OPEN for result in job.results)
    return job.state == "refused" or (job.state == "done" and final)


def _hash_of(tasks: Sequence[Task]) -> str:
    """A hash of the tasks and of the best known speedups, on which rewards depend."""
    facts = {task.id: (given_hash(task), str(task.known)) for task in tasks}
    return store.content_id("tasks", *(text for name in sorted(facts) for text in (name, *facts[name])))


def _request(data: Any) -> Request:
    """A request from the file of jobs.

    Raises:
        InputError: it is not a request.
    """
    try:
        return _REQUEST.validate_python(data)
    except (ValidationError, RecursionError) as error:
        raise InputError("not a request", hint="send it again") from error
