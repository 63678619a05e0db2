"""`kcurate serve`: checks where it may listen, opens the judges, and serves until it is stopped.

Verdicts are kept in `serve/` of the workspace: nothing that is judged here becomes a pair.

Token, host and size of every request are checked before it is parsed. With a token, every request must carry
it. Without one only this machine is served, and only requests whose Host header names it, so that a web page
cannot reach the judge through its own host name (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import ipaddress
import json
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from kcurate.backends.choice import choose
from kcurate.core import own_files
from kcurate.core.notes import Note, silent
from kcurate.core.runs import recorded
from kcurate.errors import InputError, OptionError
from kcurate.judge.workers.inside import isolation
from kcurate.local_models.libraries import require
from kcurate.records import Summary
from kcurate.serve.settings import ServeConfig

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

BODY_S = 60.0
# How much of a refused body is read, and for how long. If it were not read, a caller that is still sending
# would see a broken connection instead of the answer.
DRAIN_BYTES, DRAIN_S = 64 << 20, 5.0


class Guard:
    """An ASGI application around another one. Refuses with 400, 401, 408 and 413, and 503 while it stops."""

    def __init__(self, app: App, token: str | None, max_body: int) -> None:
        self._app, self._max_body = app, max_body
        self._token = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if self._token is not None and not hmac.compare_digest(
            headers.get(b"authorization", b""), self._token
        ):
            await _drained(headers, receive)
            await _refuse(send, 401, "missing or wrong token (Authorization: Bearer ...)")
            return
        if self._token is None and not is_loopback(_host(headers.get(b"host", b""))):
            await _drained(headers, receive)
            await _refuse(send, 400, "without a token only this machine is served, as 127.0.0.1 or localhost")
            return
        too_large = f"the body has more than {self._max_body} bytes"
        if int(headers.get(b"content-length", b"0")) > self._max_body:
            await _drained(headers, receive)
            await _refuse(send, 413, too_large)
            return
        try:
            async with asyncio.timeout(BODY_S):
                body = await self._body(receive)
        except TimeoutError:
            await _refuse(send, 408, f"the body took longer than {BODY_S:.0f} s")
            return
        if body is None:
            await _drained(headers, receive)
            await _refuse(send, 413, too_large)
            return
        waiting = [{"type": "http.request", "body": body}]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        await _until_stopped(self._app, scope, again, send)

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; None if it is too large."""
        body, more = bytearray(), True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._max_body:
                return None
        return bytes(body)


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(header: bytes) -> str:
    """The name in a Host header, without the port."""
    name = header.decode("latin-1")
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]


async def _until_stopped(app: App, scope: Message, receive: Receive, send: Send) -> None:
    """Serve one request; 503 if the server stops before it is answered, so that the caller tries again."""
    answering = False

    async def noted_send(message: Message) -> None:
        nonlocal answering
        answering = True
        await send(message)

    try:
        await app(scope, receive, noted_send)
    except asyncio.CancelledError:
        if answering:
            raise
        await _refuse(send, 503, "the server is stopping; send the request again")


async def _drained(headers: Mapping[bytes, bytes], receive: Receive) -> None:
    """Read the remainder of a refused body, within limits."""
    if b"expect" in headers:  # the caller waits for permission before it sends the body
        return
    budget, more = DRAIN_BYTES, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            while more and budget > 0:
                message = await receive()
                budget -= len(message.get("body", b""))
                more = message.get("more_body", False)


async def _refuse(send: Send, status: int, detail: str) -> None:
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"detail": detail}).encode()})


STAGE = "serve"
PACKAGES = ("fastapi", "uvicorn")
# How long open requests may take to end after a signal.
STOP_S = 3


def run(config: ServeConfig, *, note: Note = silent) -> Summary:
    """Serve until SIGINT or SIGTERM; the counts are the outcomes of the answers.

    Raises:
        MissingDependencyError: the extra is not installed, or no such GPU. InputError: it must not or cannot
            listen there, the workspace already has a server, or there are no tasks.
    """
    require(PACKAGES, "kcurate serve", "pip install 'kcurate[serve]'")
    token = _token(config)
    with contextlib.ExitStack() as stack, recorded(STAGE, config.workspace, note=note) as record:
        place = choose(config.backend, config.gpu, note=record.note, ray=config.ray)
        _require_confinement(config, record.note)
        listening = stack.enter_context(_listen(config))
        record.begin(config)
        from kcurate.reward import schemes
        from kcurate.reward.pool import PoolConfig, RewardPool
        from kcurate.serve.catalog import Catalog
        from kcurate.serve.desk import Desk
        from kcurate.serve.job_log import JobLog

        folder = config.workspace / "serve"
        log = JobLog(folder / "jobs.jsonl")
        cache = folder / "verdicts.jsonl"
        pool_config = PoolConfig(place.backend, place.gpus, config.jobs, cache_file=cache, ray=config.ray)
        pool = RewardPool(schemes.make("pairs"), pool_config)
        stack.callback(pool.close)
        environment = pool.environment()
        catalog = Catalog(config.dataset, environment)
        tasks = catalog.tasks()
        desk = Desk(pool, catalog, log, config.queue)
        host, port = listening.getsockname()[:2]
        record.note(
            f"http://{f'[{host}]' if ':' in host else host}:{port}: {environment.backend}, {len(tasks)} tasks"
        )
        gpus = place.gpus if environment.backend == "cuda" and config.ray is None else ()
        _serve(desk, gpus, token, config.max_body, listening)
        return record.finish({"answers": dict(sorted(desk.outcomes.items()))})


def _serve(
    desk: object, gpus: tuple[int, ...], token: str | None, max_body: int, sock: socket.socket
) -> None:
    import uvicorn

    from kcurate.serve.app import make

    app = Guard(make(desk, gpus), token, max_body)  # type: ignore[arg-type]
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=STOP_S)
    # After shutdown uvicorn re-raises SIGTERM; ignore it here.
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[sock])
    finally:
        signal.signal(signal.SIGTERM, before)


def _token(config: ServeConfig) -> str | None:
    """The token that callers must send; None: only this machine is served.

    Raises:
        InputError: the host is not this machine and there is no token, or the file has none.
    """
    if config.token_file is None:
        if not is_loopback(config.host):
            why = "whoever reaches this address could use the judge"
            raise OptionError(why, where=f"--host {config.host}", hint="give --token-file FILE")
        return None
    return own_files.token(config.token_file)


def _require_confinement(config: ServeConfig, note: Note) -> None:
    """If the sandbox does not confine compilers to headers, serve no other machine, and warn.

    Raises:
        InputError: compilers could read every file, and the host is not this machine.
    """
    if config.ray is not None or isolation.confined():
        return
    why = "compilers can read every file of this machine (kcurate doctor says what is missing)"
    if not is_loopback(config.host):
        raise OptionError(why, where=f"--host {config.host}", hint="serve 127.0.0.1 alone")
    note(f"warning: {why}; serve nobody else's code")


def _listen(config: ServeConfig) -> socket.socket:
    where = f"--host {config.host} --port {config.port}"
    try:
        family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
        return socket.create_server((config.host, config.port), family=family, backlog=1024)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            hint = "choose another --port, or stop the program that has it"
            raise InputError("the port is taken", where=where, hint=hint) from error
        why = f"cannot listen: {error.strerror or error}"
        raise InputError(why, where=where, hint="check --host") from error
