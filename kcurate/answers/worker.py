"""The process in which an answer runs, and the side that sends it requests.

One sandboxed process for each answer; after its time it is killed. Not covered: the sandbox
(`kernelbench.torch_process`), what it records (`answers.recording`).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from kcurate.answers.building import Builder, Built
from kcurate.judge.workers.protocol import Channel, ChannelClosed, ChannelTimeout
from kcurate.kernelbench.torch_process import TorchProcess, sandboxed

# Device code and small tensors: what a recording sends is far below.
MAX_REPLY_BLOB = 0
# A library is loaded through this many copies at most: an answer builds one or two.
MAX_BUILDS = 8


class AnswerProcess:
    """One process for one answer; a context manager.

    `as_published`: extensions are not repaired (`building`).
    """

    as_published = False

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._process = TorchProcess(
            __name__, does="runs answers", needing="reading answers needs", stderr=subprocess.DEVNULL
        )
        self._channel = self._process.channel
        self._built: dict[str, Built] = {}

    def __enter__(self) -> AnswerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()

    def record(self, answer: str, reference: str, sizes: Mapping[str, int], limit_s: float) -> dict[str, Any]:
        """The recording of a run at these sizes (`recording.recorded`), or what ended it."""
        deadline = time.monotonic() + limit_s
        try:
            self._channel.send({"answer": answer, "reference": reference, "sizes": dict(sizes)})
            while True:
                frame = self._channel.receive(deadline - time.monotonic(), max_blob_bytes=MAX_REPLY_BLOB)
                if "build" not in frame.body:
                    return dict(frame.body["recording"])
                deadline += self._answer(frame.body["build"])
        except ChannelTimeout:
            return _ended("hangs", f"it takes more than {limit_s:.0f} s")
        except (ChannelClosed, KeyError, TypeError, ValueError):
            return _ended(
                "dies", "its process died: out of memory, a crash, or an attempt to leave the sandbox"
            )

    def _answer(self, request: Mapping[str, Any]) -> float:
        """Build an extension and send it; returns the seconds that it took."""
        started_s = time.monotonic()
        key = json.dumps(request, sort_keys=True)
        if key not in self._built:
            many = len(self._built) >= MAX_BUILDS
            too_many = Built(None, "it builds too many extensions")
            self._built[key] = too_many if many else self._builder.build(request)
        built = self._built[key]
        missing = built.library is None or (self.as_published and built.why)
        blobs = {} if missing else {"library": np.frombuffer(built.library or b"", np.uint8)}
        self._channel.send({"why": built.why}, blobs)
        return time.monotonic() - started_s


def _ended(why: str, detail: str) -> dict[str, Any]:
    return {"ended": why, "detail": detail, "failed": [], "repaired": []}


def main(fd: int) -> None:
    """The main function of the process: import, enter the sandbox, greet, answer until the channel closes."""
    channel = Channel.from_fd(fd)
    # Importing `torch.utils.cpp_extension` later would meet replaced functions.
    if not sandboxed(channel, ("torch.utils.cpp_extension", "kcurate.answers.recording")):
        return
    from kcurate.answers.recording import recorded

    def build(request: Mapping[str, Any]) -> tuple[bytes | None, str]:
        channel.send({"build": dict(request)})
        frame = channel.receive()
        library = frame.blobs["library"].tobytes() if "library" in frame.blobs else None
        return library, str(frame.body["why"])

    with contextlib.suppress(ChannelClosed):
        while True:
            asked = channel.receive().body
            channel.send({"recording": recorded(asked["answer"], asked["reference"], asked["sizes"], build)})
