"""What runs on the far side: the nursery that forks workers, and a worker's life.

The nursery imports what workers need, opens no device, and forks one on request; the fork opens its device or
compiler, shuts itself in (`kcurate.judge.workers.inside.isolation`), says that it is ready, and answers
requests until the channel closes. Code of candidates is loaded only after that. Not covered: what the
requests do (`kcurate.judge.workers.inside.side_server`).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from kcurate import backends, codec
from kcurate.backends import torch_module
from kcurate.backends.base import CompileFailure, Compiler, KernelFault
from kcurate.errors import MissingDependencyError, ProblemError
from kcurate.judge.workers.inside import isolation
from kcurate.judge.workers.inside.side_server import SideServer
from kcurate.judge.workers.messages import (
    Compile,
    CompileAnswer,
    Greeting,
    Reply,
    Request,
    pack_compiled,
    read_request,
)
from kcurate.judge.workers.protocol import Blob, Channel, ChannelClosed

Handler = Callable[[Request[Any], Mapping[str, Blob]], Reply[Any]]

PR_SET_PDEATHSIG = 1


def main(control_fd: int, backend: str, *languages: str) -> None:
    """The nursery: fork a worker for every request, until the other end closes."""
    control = socket.socket(fileno=control_fd)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps; the parent process decides
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    backends.preload(backend)
    if "torch" in languages:
        torch_module.preload(backend)
    gc.freeze()
    while True:
        try:
            request, fds, _, _ = socket.recv_fds(control, 1 << 16, 1)
        except ConnectionError:  # it closed, or was killed, before it read our last answer
            break
        if not request:
            break
        pid = os.fork()
        if pid == 0:
            control.close()
            _live(json.loads(request), Channel.from_fd(fds[0]))
            return
        for fd in fds:
            os.close(fd)
        with contextlib.suppress(ConnectionError):  # closed meanwhile: the next receive says so
            control.send(json.dumps({"pid": pid}).encode())
    shutil.rmtree(Path.cwd(), ignore_errors=True)


def _live(role: Mapping[str, Any], channel: Channel) -> None:
    """A worker: prepare, shut in, greet, answer."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _report_crashes(channel)
    try:
        handle, greeting = _compile_handler(role) if role["kind"] == "compile" else _run_handler(role)
    except MissingDependencyError as error:
        channel.send({"missing": str(error)})
        return
    inside = isolation.enter(role["kind"], role["backend"])
    hello = replace(greeting, isolation=inside)
    channel.send(codec.to_data(hello))
    while True:
        try:
            frame = channel.receive()
        except ChannelClosed:
            os._exit(0)
        try:
            reply = handle(read_request(frame.body), frame.blobs)
            body, blobs = codec.to_data(reply.body), reply.blobs
        except KernelFault as fault:
            _tell(channel, {"fault": fault.reason, "what": fault.what})
            os._exit(1)  # after a fault the device of this process is beyond use
        except ProblemError as error:
            body, blobs = {"problem": str(error)}, {}
        _tell(channel, body, blobs)


def _tell(channel: Channel, body: Mapping[str, Any], blobs: Mapping[str, Blob] | None = None) -> None:
    """Send, or end when nobody listens any more."""
    try:
        channel.send(body, blobs)
    except ChannelClosed:
        os._exit(0)


def _report_crashes(channel: Channel) -> None:
    """A bug of ours reaches the parent as text; nothing here decides what it means."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _tell(channel, {"error": "".join(traceback.format_exception(kind, error, trace))})
        os._exit(1)

    sys.excepthook = hook


def _run_handler(role: Mapping[str, Any]) -> tuple[Handler, Greeting]:
    backends.warm_up(role["backend"])
    # Not under the GPU's lock: opening it is half a second of the driver's work on the CPU, and times would
    # wait for it. What that does to them shows in the spread that benchmarks/judge.py reports.
    device = backends.open_device(role["backend"], role["index"])
    environment = device.environment()
    return SideServer(device).handle, Greeting({}, environment, arch=getattr(device, "arch", None))


def _compile_handler(role: Mapping[str, Any]) -> tuple[Handler, Greeting]:
    compiler = backends.open_compiler(role["backend"], **role["options"])
    return lambda request, _: compile_one(compiler, request), Greeting({})


def compile_one(compiler: Compiler, request: Request[Any]) -> Reply[CompileAnswer]:
    """Compile one side; the binary travels beside the description."""
    assert isinstance(request, Compile), "a compile worker is asked for nothing else"
    made = compiler.compile(request.code, request.entry_points, request.symbols, sanitize=request.sanitize)
    if isinstance(made, CompileFailure):
        return Reply(CompileAnswer(failure=made))
    described, blobs = pack_compiled(made)
    return Reply(CompileAnswer(described), blobs)
