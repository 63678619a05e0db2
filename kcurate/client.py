"""A client of `kcurate serve`, and the types of its requests and answers, which the server shares.

    with Client("http://127.0.0.1:8077") as judge:
        job = judge.judge([Answer(task="deep-learning/softmax-block-online", reply=text)])
        job.results[0].reward

It imports only the standard library and kcurate's errors, so that it works with whatever versions a trainer
pins. A call is repeated while the server is unreachable or full; an equal request is the same job, so nothing
is judged twice. Not covered: what an outcome earns (docs/rewards.md), HTTP statuses (docs/serving.md).
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any, Literal, TypeVar

from kcurate.errors import InputError, RemoteError

T = TypeVar("T")

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
DEFAULT_URL = "http://127.0.0.1:8077"
# Statuses after which a request is sent again: too many jobs, judges that failed, a proxy without a server.
AGAIN = frozenset({429, 502, 503, 504})
# Time limit for one answer. The server answers within five minutes, also if a request waits for its results.
ANSWER_S = 900.0
# Calls of an `AsyncClient` that can wait at the same time.
THREADS = 64
# How many tasks `every_task` requests at once.
PAGE = 1000


@dataclass(frozen=True)
class Given:
    """Device code, and the plan and scratch buffers that launch it, as `pair.json` has them."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by the server only
    code: str
    plan: Sequence[Any]
    buffers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OwnProblem:
    """A problem of the caller: the `problem` of a `pair.json`, and the side that defines its results."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    problem: Mapping[str, Any]
    given: Given


@dataclass(frozen=True)
class Answer:
    """A model's answer: the text of its `reply`, or `code` with a plan and buffers if they differ.

    `task`: the id of one of the server's tasks; None: the answer is to the problem in the request.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    task: str | None = None
    reply: str | None = None
    code: str | None = None
    plan: Sequence[Any] | None = None
    buffers: Mapping[str, Any] | None = None
    language: Literal["cuda"] = "cuda"


@dataclass(frozen=True)
class Request:
    """Answers to judge. The answers to one task form a group; some reward schemes compare them.

    `values` override the numbers of the reward scheme. `wait` False: the server returns a job id at once.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
    answers: Sequence[Answer]
    problem: OwnProblem | None = None
    scheme: str = "pairs"
    values: Mapping[str, float] = field(default_factory=dict)
    wait: bool = True


@dataclass(frozen=True)
class Result:
    """What one answer earned, as in training (docs/rewards.md).

    `speedup`: slow time over fast time of the headline size, from `low` to `high`; None if not timed.
    `feedback`: what to tell a model before its next attempt. `key`: identifies its verdict; None if it was
    refused before judging. `audit`: its speedup was measured a second time. `cached`: the verdict of an equal
    answer was used.
    """

    task: str | None
    outcome: str
    reward: float
    components: Mapping[str, float]
    correct: bool
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    feedback: str = ""
    detail: str = ""
    key: str | None = None
    audit: bool = False
    cheat: bool = False
    cached: bool = False
    judge_s: float = 0.0


@dataclass(frozen=True)
class Job:
    """An accepted request. `refused`: the problem in it is not admitted; `failed`: the judges failed."""

    id: str
    state: Literal["waiting", "done", "refused", "failed"]
    results: Sequence[Result] = ()
    error: str | None = None


@dataclass(frozen=True)
class Task:
    """A slow side to make faster. `prompt` has chat messages; use the other fields to write other prompts.

    `local_edit`: the known answer is mostly the given code, so scores should leave the task out.
    """

    id: str
    family: str
    domain: str
    language: str
    prompt: Sequence[Mapping[str, str]]
    problem: Mapping[str, Any]
    given: Given
    local_edit: bool = False


@dataclass(frozen=True)
class TaskList:
    """Some of the tasks that match; `total`: how many match."""

    total: int
    tasks: Sequence[Task]


@dataclass(frozen=True)
class Health:
    """The server and its judges. `waiting`: answers in open jobs, of at most `queue`."""

    version: str
    backend: str
    device: str
    gpus: Sequence[int]
    timed: bool
    tasks: int
    jobs: int
    waiting: int
    queue: int


class Client:
    """Calls a server. `retry_s`: how long to retry while it is unreachable or full; `note` reports retries.

    The time counts from the first failure, however long that call waited for its answer.

    Raises (every call):
        InputError: the server refused the request (an unknown task, a wrong token, a body too large).
        RemoteError: it could not be reached, or its judges failed, for `retry_s` seconds.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        token: str | None = None,
        retry_s: float = 300.0,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError("not an http address", where=url, hint=f"such as {DEFAULT_URL}")
        here = parts.hostname in LOOPBACK
        self._opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if here else []))
        self._url, self._retry_s, self._note = url.rstrip("/"), retry_s, note
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing stays open."""

    def tasks(self, **filters: str | int | float | bool) -> TaskList:
        """The tasks that match `filters`, such as `id`, `family`, `split`, `brief`, `limit`."""
        answer = self._call("GET", f"/tasks?{urllib.parse.urlencode(filters)}")
        tasks = [_of(Task, task | {"given": _of(Given, task["given"])}) for task in answer["tasks"]]
        return TaskList(answer["total"], tasks)

    def every_task(self, **filters: str | int | float | bool) -> Iterator[Task]:
        """All tasks that match, requested page by page."""
        offset = 0
        while page := self.tasks(**filters, offset=offset, limit=PAGE).tasks:
            yield from page
            offset += len(page)

    def judge(
        self,
        answers: Sequence[Answer],
        *,
        problem: OwnProblem | None = None,
        scheme: str = "pairs",
        values: Mapping[str, float] | None = None,
    ) -> Job:
        """Judge answers and wait for the results; `values` override the numbers of the scheme.

        Raises:
            InputError: also if the caller's problem is refused.
        """
        job = self.submit(Request(answers, problem, scheme, values or {}))
        while job.state == "waiting":
            job = self.job(job.id, wait=True)
        if job.state == "refused":
            raise InputError(job.error or "refused", where="the problem")
        if job.state == "failed":
            raise RemoteError(job.error or "failed", where=self._url)
        return job

    def submit(self, request: Request) -> Job:
        """Send a request; returns its job at once if `request.wait` is False."""
        return job_of(self._call("POST", "/judge", asdict(request)))

    def job(self, job_id: str, *, wait: bool = False) -> Job:
        """A job; with `wait`, the server answers when it has ended, or after five minutes."""
        return job_of(self._call("GET", f"/jobs/{job_id}?wait={str(wait).lower()}"))

    def verdicts(self, key: str) -> list[dict[str, Any]]:
        """The final verdicts under the key of a result, in the form of `schemas/verdict.json`."""
        verdicts: list[dict[str, Any]] = self._call("GET", f"/verdicts/{key}")
        return verdicts

    def health(self) -> Health:
        """The server's state."""
        return _of(Health, self._call("GET", "/health"))

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        until, pause_s = None, 0.25
        while True:
            request = urllib.request.Request(self._url + path, data, self._headers, method=method)
            try:
                with self._opener.open(request, timeout=ANSWER_S) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                why, again = _detail(error), error.code in AGAIN
                if not again:
                    raise InputError(why, where=f"{self._url} answers {error.code}") from error
            except (OSError, http.client.HTTPException, ValueError) as error:
                why = str(getattr(error, "reason", None) or error) or type(error).__name__
            until = time.monotonic() + self._retry_s if until is None else until
            if time.monotonic() + pause_s > until:
                raise RemoteError(why, where=self._url, hint="is kcurate serve running?")
            self._note(f"{self._url}: {why}; trying again in {pause_s:.2g} s")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 10.0)


class AsyncClient:
    """`Client` for callers with an event loop: each call runs in a thread.

    A cancelled call continues in its thread; its result is dropped.
    """

    def __init__(self, url: str = DEFAULT_URL, **options: Any) -> None:
        self._client = Client(url, **options)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kcurate-client")

    async def tasks(self, **filters: str | int | float | bool) -> TaskList:
        """See `Client`."""
        return await self._run(partial(self._client.tasks, **filters))

    async def every_task(self, **filters: str | int | float | bool) -> AsyncIterator[Task]:
        """See `Client`."""
        offset = 0
        while page := (await self.tasks(**filters, offset=offset, limit=PAGE)).tasks:
            for task in page:
                yield task
            offset += len(page)

    async def judge(self, answers: Sequence[Answer], **options: Any) -> Job:
        """See `Client`."""
        return await self._run(partial(self._client.judge, answers, **options))

    async def submit(self, request: Request) -> Job:
        """See `Client`."""
        return await self._run(partial(self._client.submit, request))

    async def job(self, job_id: str, *, wait: bool = False) -> Job:
        """See `Client`."""
        return await self._run(partial(self._client.job, job_id, wait=wait))

    async def verdicts(self, key: str) -> list[dict[str, Any]]:
        """See `Client`."""
        return await self._run(partial(self._client.verdicts, key))

    async def health(self) -> Health:
        """See `Client`."""
        return await self._run(self._client.health)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _of(cls: type[T], data: Mapping[str, Any]) -> T:
    """A record from a server's answer; unknown fields, of a newer server, are ignored."""
    names = {member.name for member in fields(cls)}  # type: ignore[arg-type]
    return cls(**{key: value for key, value in data.items() if key in names})


def job_of(data: Mapping[str, Any]) -> Job:
    """A job from a server's answer, or from the server's own log."""
    return _of(Job, {**data, "results": [_of(Result, result) for result in data["results"]]})


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["detail"])
    except (ValueError, KeyError, TypeError, OSError):
        return error.reason
