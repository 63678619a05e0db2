"""Who may ask, and how much: in front of every endpoint, before anything is parsed.

With a token, every request must carry it. Without one only this machine is served, and only requests that
name it as their host, so that a page in a browser cannot reach the judge through a name of its own.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from kcurate.client import LOOPBACK

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

BODY_S = 60.0


class Guard:
    """An ASGI application around another one. Refuses with 400, 401, 408 and 413."""

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
            await _refuse(send, 401, "missing or wrong token (Authorization: Bearer ...)")
            return
        if self._token is None and _host(headers.get(b"host", b"")) not in LOOPBACK:
            await _refuse(send, 400, "without a token only this machine is served, as 127.0.0.1 or localhost")
            return
        too_large = f"the body has more than {self._max_body} bytes"
        if int(headers.get(b"content-length", b"0")) > self._max_body:
            await _refuse(send, 413, too_large)
            return
        try:
            async with asyncio.timeout(BODY_S):
                body = await self._body(receive)
        except TimeoutError:
            await _refuse(send, 408, f"the body took longer than {BODY_S:.0f} s")
            return
        if body is None:
            await _refuse(send, 413, too_large)
            return
        waiting = [{"type": "http.request", "body": body}]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, again, send)

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


def _host(header: bytes) -> str:
    """The name in a Host header, without the port."""
    name = header.decode("latin-1")
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]


async def _refuse(send: Send, status: int, detail: str) -> None:
    kinds = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": kinds})
    await send({"type": "http.response.body", "body": json.dumps({"detail": detail}).encode()})
