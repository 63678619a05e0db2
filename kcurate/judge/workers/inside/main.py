"""The nursery's loop, which forks workers, and a worker's loop, which answers requests.

The nursery imports what workers need and opens no device. A forked worker opens its device or compiler,
sandboxes itself, sends its greeting, and answers requests until the channel closes; only then does it load
candidates' code. Not covered: the sandbox (`kcurate.judge.workers.inside.isolation`), what requests do
(`kcurate.judge.workers.inside.side_server`).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
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

from kcurate import backends
from kcurate.backends import torch_module
from kcurate.backends.base import CompileFailure, Compiler, KernelFault
from kcurate.backends.triton import installed
from kcurate.core import codec
from kcurate.errors import MissingDependencyError, ProblemError
from kcurate.judge.workers.inside import isolation
from kcurate.judge.workers.inside.side_server import SideServer
from kcurate.judge.workers.messages import pack_compiled, read_request
from kcurate.judge.workers.protocol import Blob, Channel, ChannelClosed
from kcurate.judge.workers.requests import Compile, CompileAnswer, Greeting, Reply, Request

Handler = Callable[[Request[Any], Mapping[str, Blob]], Reply[Any]]

KILLED_S = 2.0  # time for a killed worker to end
# Compilers give way to whoever holds the GPU, which idles while a timing waits for a core.
COMPILERS_NICE = 5


def main(control_fd: int, backend: str, *languages: str) -> None:
    """The nursery: fork a worker for every request until the other end closes."""
    control = socket.socket(fileno=control_fd)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps dead workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    backends.preload(backend)
    if backend == "cuda":
        importlib.import_module("kcurate.judge.workers.inside.bench_slots")
    if "torch" in languages:
        torch_module.preload(backend)
    if "triton" in languages:
        installed.preload(backend)
    gc.freeze()
    workers: list[int] = []  # a pidfd each
    nursery = os.getpid()
    while True:
        try:
            request, fds, _, _ = socket.recv_fds(control, 1 << 16, 1)
        except ConnectionError:  # the judge closed or died before it read our last answer
            break
        if not request:
            break
        pid = os.fork()
        if pid == 0:
            control.close()
            for other in workers:
                os.close(other)
            _worker_main(nursery, json.loads(request), Channel.from_fd(fds[0]))
            return
        for fd in fds:
            os.close(fd)
        workers = [worker for worker in workers if not _ended(worker)]
        with contextlib.suppress(ProcessLookupError):  # it has died already
            workers.append(os.pidfd_open(pid))
        with contextlib.suppress(ConnectionError):  # closed in the meantime: the next receive notices
            control.send(json.dumps({"pid": pid}).encode())
    for worker in workers:  # a living one may still write into the folder that goes next
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(worker, signal.SIGKILL)
    for worker in workers:
        _ended(worker, KILLED_S)
    shutil.rmtree(Path.cwd(), ignore_errors=True)


def _ended(worker: int, wait_s: float = 0) -> bool:
    """Whether the process of a pidfd ends within `wait_s` seconds; if so, closes the pidfd."""
    poller = select.poll()
    poller.register(worker, select.POLLIN)
    if ended := bool(poller.poll(wait_s * 1000)):
        os.close(worker)
    return ended


def _worker_main(nursery: int, role: Mapping[str, Any], channel: Channel) -> None:
    """A worker: open its device or compiler, enter the sandbox, greet, answer requests."""
    os.setsid()
    isolation.die_with_parent()
    if os.getppid() != nursery:  # it died before we asked to die with it
        os._exit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _report_crashes(channel)
    try:
        readable = None
        if role["kind"] == "compile":
            os.nice(COMPILERS_NICE)
            compiler = backends.open_compiler(role["backend"], **role["options"])
            readable = compiler.folders()
            handle, greeting = _compile_handler(compiler), Greeting({})
        else:
            handle, greeting = _run_handler(role)
    except MissingDependencyError as error:
        channel.send({"missing": error.what, "hint": error.hint})
        return
    language = role["options"].get("language", "cuda")
    inside = isolation.enter(role["kind"], role["backend"], language, readable=readable)
    channel.send(codec.to_data(replace(greeting, isolation=inside)))
    while True:
        try:
            frame = channel.receive()
        except ChannelClosed:
            os._exit(0)
        try:
            reply = handle(read_request(frame.body), frame.blobs)
            body, blobs = codec.to_data(reply.body), reply.blobs
        except KernelFault as fault:
            _send_or_exit(channel, {"fault": fault.reason, "what": fault.what})
            os._exit(1)  # after a fault this process's CUDA context is unusable
        except ProblemError as error:
            body, blobs = {"problem": str(error)}, {}
        _send_or_exit(channel, body, blobs)


def _send_or_exit(channel: Channel, body: Mapping[str, Any], blobs: Mapping[str, Blob] | None = None) -> None:
    """Send, or exit if the other end is closed."""
    try:
        channel.send(body, blobs)
    except ChannelClosed:
        os._exit(0)


def _report_crashes(channel: Channel) -> None:
    """Send the traceback of an unhandled exception to the parent."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _send_or_exit(channel, {"error": "".join(traceback.format_exception(kind, error, trace))})
        os._exit(1)

    sys.excepthook = hook


def _run_handler(role: Mapping[str, Any]) -> tuple[Handler, Greeting]:
    backends.warm_up(role["backend"])
    # Not under the GPU's lock: timing would wait for half a second of driver work on the CPU. Its effect on
    # times is part of the spread that benchmarks/judge.py reports.
    device = backends.open_device(role["backend"], role["index"])
    environment = device.environment()
    return SideServer(device).handle, Greeting({}, environment, arch=getattr(device, "arch", None))


def _compile_handler(compiler: Compiler) -> Handler:
    return lambda request, _: compile_one(compiler, request)


def compile_one(compiler: Compiler, request: Request[Any]) -> Reply[CompileAnswer]:
    """Answer a compile request; the reply has the array `binary`."""
    assert isinstance(request, Compile), "a compile worker only compiles"
    if request.language == "ptx":
        from kcurate.backends.cuda.ptxas import assemble

        compiled = assemble(request.code, examine=request.examine)
    else:
        compiled = compiler.compile(
            request.code,
            request.entry_points,
            request.symbols,
            sanitize=request.sanitize,
            examine=request.examine,
            **({"turns": True} if request.turns else {}),
        )
    if isinstance(compiled, CompileFailure):
        return Reply(CompileAnswer(failure=compiled))
    described, blobs = pack_compiled(compiled)
    return Reply(CompileAnswer(described), blobs)
