"""The process in which an answer runs, and the end of it that asks.

It imports PyTorch, then enters the sandbox of foreign device code: it writes nothing, reads libraries only,
has no network, starts no process, and its memory is limited. One process for each answer; after its time it
is killed. Not covered: what it records (`answers.recording`).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from kcurate.answers.building import Builder, Built
from kcurate.core import time_limits
from kcurate.errors import BackendError, MissingDependencyError
from kcurate.judge.workers.nursery import worker_environment
from kcurate.judge.workers.protocol import Channel, ChannelClosed, ChannelTimeout, pair

BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kcurate.answers.worker import main; main(int(sys.argv[2]))"
)
# Device code and small tensors: what a recording sends is far below.
MAX_REPLY_BLOB = 0
# A library is loaded through this many copies at most: an answer builds one or two.
MAX_BUILDS = 8


class AnswerProcess:
    """One process for one answer; a context manager.

    `as_published`: extensions that build only with their bindings joined do not build.
    """

    as_published = False

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._folder = tempfile.mkdtemp(prefix="kcurate-answer-")
        self._channel, theirs = pair()
        self._process = subprocess.Popen(
            [sys.executable, "-c", BOOT, json.dumps(sys.path), str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            env=worker_environment(self._folder),
            start_new_session=True,
        )
        theirs.close()
        self._built: dict[str, Built] = {}
        self._greet()

    def __enter__(self) -> AnswerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _greet(self) -> None:
        try:
            greeting = self._channel.receive(time_limits.START_WORKER_S)
        except (ChannelTimeout, ChannelClosed) as error:
            self.__exit__()
            raise BackendError("the process that runs answers did not start") from error
        if "missing" in greeting.body:
            self.__exit__()
            raise MissingDependencyError("reading answers needs torch", hint="pip install 'kcurate[train]'")

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
        """Build an extension and send it; the seconds that it took."""
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
    try:
        import torch._dynamo  # importing it later would meet replaced functions
        import torch.utils.cpp_extension  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        channel.send({"missing": "torch"})
        return
    from kcurate.answers.recording import recorded
    from kcurate.backends import torch_module
    from kcurate.judge.workers.inside import isolation

    torch_module.preload("emulator")
    isolation.enter("run", "emulator")
    channel.send({})

    def build(request: Mapping[str, Any]) -> tuple[bytes | None, str]:
        channel.send({"build": dict(request)})
        frame = channel.receive()
        library = frame.blobs["library"].tobytes() if "library" in frame.blobs else None
        return library, str(frame.body["why"])

    with contextlib.suppress(ChannelClosed):
        while True:
            asked = channel.receive().body
            channel.send({"recording": recorded(asked["answer"], asked["reference"], asked["sizes"], build)})
