"""Checks token, host and size of every request before it is parsed.

With a token, every request must carry it. Without one only this machine is served, and only requests whose
Host header names it, so that a web page cannot reach the judge through its own host name (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

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
