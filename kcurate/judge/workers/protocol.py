"""Frames between the judge and a worker: JSON and raw bytes, never pickle.

A worker that ran hostile code may send anything. Reading a frame therefore runs no code, and checks every
length against a limit before it allocates memory. Not covered: the messages
(`kcurate.judge.workers.messages`).
"""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

HEADER = struct.Struct("<4sIQ")
MAGIC = b"kcu1"
MAX_BODY_BYTES = 64 << 20
MAX_BLOB_BYTES = 64 << 30
SOCKET_BUFFER_BYTES = 4 << 20

Blob = npt.NDArray[np.uint8]


class ChannelClosed(Exception):  # noqa: N818 - an event, not an error of ours
    """The other end closed the connection or sent an invalid frame."""


class ChannelTimeout(Exception):  # noqa: N818 - an event, not an error of ours
    """No frame arrived within the time limit."""


@dataclass(frozen=True)
class Frame:
    """One message: plain data, and named byte arrays (uint8, one dimension)."""

    body: Mapping[str, Any]
    blobs: Mapping[str, Blob] = field(default_factory=dict)


class Channel:
    """One end of a stream socket that carries frames both ways."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        """Take over an inherited file descriptor."""
        return cls(socket.socket(fileno=fd))

    def close(self) -> None:
        """Close this end."""
        self.socket.close()

    def send(self, body: Mapping[str, Any], blobs: Mapping[str, Blob] | None = None) -> None:
        """Send one frame; blocks while the other end does not read.

        Raises:
            ChannelClosed: the other end is closed.
        """
        parts = {
            name: np.ascontiguousarray(blob).reshape(-1).view(np.uint8)
            for name, blob in (blobs or {}).items()
        }
        listing = [[name, part.size] for name, part in parts.items()]
        text = json.dumps({"body": body, "blobs": listing}, separators=(",", ":")).encode()
        total = sum(part.size for part in parts.values())
        try:
            self.socket.sendall(HEADER.pack(MAGIC, len(text), total) + text)
            for part in parts.values():
                self.socket.sendall(part.data)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def receive(self, timeout_s: float | None = None, *, max_blob_bytes: int = MAX_BLOB_BYTES) -> Frame:
        """The next frame.

        Raises:
            ChannelTimeout: it did not arrive in full within `timeout_s` seconds (None: no limit).
            ChannelClosed: the other end is closed, or the frame is invalid.
        """
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        magic, body_bytes, blob_bytes = HEADER.unpack(self._exactly(HEADER.size, deadline).tobytes())
        if magic != MAGIC or body_bytes > MAX_BODY_BYTES or blob_bytes > max_blob_bytes:
            raise ChannelClosed("invalid frame")
        try:
            data = json.loads(self._exactly(body_bytes, deadline).tobytes())
            body, listing = data["body"], [(str(name), int(size)) for name, size in data["blobs"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ChannelClosed("invalid frame") from error
        sizes = [size for _, size in listing]
        if not isinstance(body, dict) or any(size < 0 for size in sizes) or sum(sizes) != blob_bytes:
            raise ChannelClosed("invalid frame")
        return Frame(body, {name: self._exactly(size, deadline) for name, size in listing})

    def has_news(self, within_s: float) -> bool:
        """Whether something to read arrived within so many seconds, or the other end was closed."""
        try:
            self._wait(within_s)
        except ChannelTimeout:
            return False
        except ChannelClosed:
            pass
        return True

    def _exactly(self, size: int, deadline: float) -> Blob:
        data = np.empty(size, np.uint8)
        view = data.data
        have = 0
        while have < size:
            left_s = deadline - time.monotonic()
            self._wait(left_s)
            try:
                got = self.socket.recv_into(view[have:], size - have)
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not got:
                raise ChannelClosed("the other end is closed")
            have += got
        return data

    def _wait(self, left_s: float) -> None:
        if self.socket.fileno() < 0:
            raise ChannelClosed("this end is closed")
        poller = select.poll()
        poller.register(self.socket, select.POLLIN)
        limit = None if math.isinf(left_s) else max(0, math.ceil(left_s * 1000))
        if not poller.poll(limit):
            raise ChannelTimeout("no answer within the time limit")


def pair() -> tuple[Channel, socket.socket]:
    """A new connection: our end as a channel, and the socket for the worker's end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(ours), theirs
