"""The endpoints, as a FastAPI application around a `Desk`. Statuses and limits: docs/serving.md."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import fastapi
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse

from kcurate import __version__, client
from kcurate.core import codec, store
from kcurate.errors import InputError, KcurateError
from kcurate.reward.verdict_cache import short
from kcurate.serve.catalog import shown_task
from kcurate.serve.desk import Desk, QueueFullError, UnknownTaskError, UnwrittenError

# After this many seconds a waiting caller gets the id of the job instead of its results.
WAIT_S = 300.0
# When a caller should try again after a 429.
AGAIN_S = 5
STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (UnknownTaskError, 404),
    (QueueFullError, 429),
    (UnwrittenError, 507),
    (InputError, 422),
    (KcurateError, 503),
)


@dataclass(frozen=True)
class Refused:
    """Why a request was refused."""

    detail: str


REFUSALS: dict[int | str, dict[str, Any]] = {
    code: {"model": Refused, "description": text}
    for code, text in {
        400: "The body is not JSON, or the host is not this machine.",
        401: "The token is missing or wrong.",
        404: "No such task, job or verdict.",
        408: "The body did not arrive in time.",
        413: "The body is too large.",
        422: "The request cannot be judged, or its own problem is refused.",
        429: "The queue is full; try again later.",
        503: "The judges failed; try again.",
        507: "The job cannot be written.",
    }.items()
}


def make(desk: Desk, gpus: tuple[int, ...] = ()) -> fastapi.FastAPI:
    """The application; it resumes the desk's jobs when it starts, and closes the desk when it stops."""

    @contextlib.asynccontextmanager
    async def life(_: fastapi.FastAPI) -> AsyncIterator[None]:
        await desk.resume()
        yield
        await desk.close()

    app = fastapi.FastAPI(title="kcurate serve", version="1", lifespan=life, docs_url=None, redoc_url=None)
    routes = Routes(desk, gpus)
    for method, path, endpoint, statuses in (
        ("GET", "/tasks", routes.tasks, ()),
        ("POST", "/judge", routes.judge, (400, 404, 408, 413, 429, 503, 507)),
        ("GET", "/jobs/{job_id}", routes.job, (404,)),
        ("GET", "/verdicts/{key}", routes.verdicts, (404,)),
        ("GET", "/health", routes.health, ()),
        ("GET", "/metrics", routes.metrics, ()),
    ):
        app.add_api_route(
            path,
            endpoint,
            methods=[method],
            responses={code: REFUSALS[code] for code in sorted((401, 422, *statuses))},
            dependencies=[fastapi.Depends(_only(endpoint))],
        )
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(RecursionError, _too_deep)
    for kind, _ in STATUSES:
        app.add_exception_handler(kind, _refused)
    return app


class Routes:
    """What each endpoint does."""

    def __init__(self, desk: Desk, gpus: tuple[int, ...]) -> None:
        self._desk, self._gpus = desk, gpus

    async def tasks(
        self,
        id: str | None = None,
        family: str | None = None,
        domain: str | None = None,
        split: str | None = None,
        held_out: float = 0.2,
        seed: int = 42,
        brief: bool = False,
        offset: Annotated[int, fastapi.Query(ge=0)] = 0,
        limit: Annotated[int, fastapi.Query(ge=0, le=1000)] = 100,
    ) -> client.TaskList:
        """The tasks that match, ordered by id. `split`: train or held_out, as `kcurate train` splits them."""
        filters = {"id": id, "family": family, "domain": domain}
        matching = await asyncio.to_thread(
            self._desk.catalog.select, filters, split, held_out, seed, brief=brief
        )
        page = matching[offset : offset + limit]
        return client.TaskList(len(matching), [shown_task(task) for task in page])

    async def judge(
        self, asked: client.Request, request: fastapi.Request, response: fastapi.Response
    ) -> client.Job:
        """Judge answers. 202 with a job's id if the request does not wait, or waited five minutes."""
        async with _disconnect(request) as gone:
            job = await self._desk.judge(asked, gone, WAIT_S)
        if job.state == "refused":
            raise fastapi.HTTPException(422, job.error)
        if job.state == "failed":
            raise fastapi.HTTPException(503, job.error)
        if job.state == "waiting":
            response.status_code = 202
        return job

    async def job(self, job_id: str, request: fastapi.Request, wait: bool = False) -> client.Job:
        """A job. `wait`: answer when it has ended, or after five minutes."""
        async with _disconnect(request) as gone:
            job = await self._desk.look(job_id, gone, WAIT_S if wait else 0.0)
        if job is None:
            raise fastapi.HTTPException(404, f"no job {job_id}")
        return job

    async def verdicts(self, key: str) -> list[dict[str, Any]]:
        """The final verdicts under a result's key, without samples: one, or two if it was audited."""
        final = self._desk.pool.find(key)
        if not final:
            raise fastapi.HTTPException(404, f"no final verdict {key}")
        return [codec.to_data(short(verdict, key)) for verdict in final]

    async def health(self) -> client.Health:
        """The judges, and how many answers wait for them."""
        desk = self._desk
        timed = await asyncio.to_thread(lambda: desk.pool.timed)
        tasks = await asyncio.to_thread(desk.catalog.tasks)
        judges = (desk.environment.backend, desk.environment.device, self._gpus, timed)
        return client.Health(__version__, *judges, len(tasks), desk.jobs, desk.waiting, desk.queue)

    async def metrics(self) -> PlainTextResponse:
        """Counters since the start, in Prometheus' text format."""
        desk = self._desk
        lines = [
            "# TYPE kcurate_answers_total counter",
            *(f'kcurate_answers_total{{outcome="{name}"}} {n}' for name, n in sorted(desk.outcomes.items())),
            "# TYPE kcurate_jobs_total counter",
            *(f'kcurate_jobs_total{{state="{name}"}} {n}' for name, n in sorted(desk.states.items())),
            "# TYPE kcurate_answers_cached_total counter",
            f"kcurate_answers_cached_total {desk.cached}",
            "# TYPE kcurate_judge_seconds_total counter",
            f"kcurate_judge_seconds_total {desk.judge_s:.3f}",
            "# TYPE kcurate_waiting_answers gauge",
            f"kcurate_waiting_answers {desk.waiting}",
            "# TYPE kcurate_open_jobs gauge",
            f"kcurate_open_jobs {desk.jobs}",
        ]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


@contextlib.asynccontextmanager
async def _disconnect(request: fastapi.Request) -> AsyncIterator[asyncio.Future[None]]:
    """A future that is done once the caller has disconnected."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    gone = asyncio.create_task(disconnected())
    try:
        yield gone
    finally:
        gone.cancel()


def _only(endpoint: Callable[..., Any]) -> Callable[[fastapi.Request], None]:
    """Refuses unknown query parameters: a misspelt `split` would be ignored, and list held-out tasks too."""
    parameters = set(inspect.signature(endpoint).parameters)

    def check(request: fastapi.Request) -> None:
        if unknown := [name for name in request.query_params if name not in parameters]:
            raise InputError(f"unknown parameter {unknown[0]!r}", where="query")

    return check


async def _invalid(_: fastapi.Request, error: Exception) -> JSONResponse:
    """Answer a malformed request with its first faults, without the values that it sent."""
    assert isinstance(error, RequestValidationError)
    errors = error.errors()
    messages = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in errors[:3]]
    broken = any(fault["type"] == "json_invalid" for fault in errors)
    return _answer(400 if broken else 422, "; ".join(messages))


async def _too_deep(_: fastapi.Request, __: Exception) -> JSONResponse:
    return _answer(422, "nested too deeply")


async def _refused(_: fastapi.Request, error: Exception) -> JSONResponse:
    status = next(code for kind, code in STATUSES if isinstance(error, kind))
    return _answer(status, str(error))


def _answer(status: int, detail: str) -> JSONResponse:
    text = " ".join(detail.encode("utf-8", "replace").decode().split())
    return JSONResponse({"detail": text}, status, {"Retry-After": str(AGAIN_S)} if status == 429 else None)


if __name__ == "__main__":
    # python -m kcurate.serve.app docs/serve-openapi.json
    store.write_bytes(Path(sys.argv[1]), store.pretty_json(make(cast(Any, None)).openapi()))
