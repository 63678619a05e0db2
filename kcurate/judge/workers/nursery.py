"""Worker processes, the judge's end: forked from a nursery, asked, killed with all their children.

A `Nursery` is a trusted fork server: it has imported what workers need and opened no device, so a new worker
costs no import. Each worker is a session of its own and dies with the nursery, which dies with the judge. Not
covered: what a worker does (`kcurate.judge.workers.inside.main`), how many there are
(`kcurate.judge.workers.spares`, `kcurate.judge.workers.compiling`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from kcurate.backends.base import FaultReason, KernelFault
from kcurate.backends.emulator import toolchain
from kcurate.core import codec, limited_output, lock_files, time_limits
from kcurate.errors import BackendError, MissingDependencyError, ProblemError, RecordError
from kcurate.judge.workers.messages import pack_request, read_answer
from kcurate.judge.workers.protocol import (
    MAX_BLOB_BYTES,
    Blob,
    Channel,
    ChannelClosed,
    ChannelTimeout,
    Frame,
    pair,
)
from kcurate.judge.workers.requests import Greeting, Reply, Request

A = TypeVar("A")
BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kcurate.judge.workers.inside.main import main; main(int(sys.argv[2]), *sys.argv[3:])"
)
# The environment variables that a worker inherits; none can hold a secret.
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH")

# The clock of a process by its id (Linux, `clock_getcpuclockid`), and how often it is read at most.
PROCESS_CLOCK = 2
LEAST_WAIT_S = 0.01
# Of a tool's output, the beginning is kept; a compiler's messages on real code have kilobytes.
MAX_OUTPUT_BYTES = 16 << 20


class WorkerDied(Exception):  # noqa: N818 - an event that the judge turns into an outcome
    """The worker process died without an answer."""


class InvalidAnswer(WorkerDied):
    """The worker's answer does not fit the request; the worker has been killed."""


class WorkerTimeout(Exception):  # noqa: N818 - an event that the judge turns into an outcome
    """The worker did not answer in time and has been killed."""


@dataclass(frozen=True)
class Role:
    """What a worker is for: `compile` or `run`, on which backend and device."""

    kind: str
    backend: str
    index: int = 0
    options: Mapping[str, Any] | None = None

    def body(self) -> dict[str, Any]:
        """The fork request for the nursery."""
        return {**vars(self), "options": dict(self.options or {})}


class Worker:
    """One worker process. Not thread safe.

    `helped`: our own kernels are loaded. `used`: it has held another candidate's side.
    """

    def __init__(self, role: Role, pid: int, channel: Channel) -> None:
        self.role = role
        self.pid = pid
        self.channel = channel
        self.alive = True
        self.helped = self.used = False
        self._asked: deque[type[Request[Any]]] = deque()
        self._greeting: Greeting | None = None
        self._pidfd = -1
        self._cpu_s, self._born_s = 0.0, time.monotonic()
        with contextlib.suppress(OSError):
            self._pidfd = os.pidfd_open(pid)

    @property
    def pending(self) -> int:
        """The number of unanswered requests."""
        return len(self._asked)

    @property
    def cpu_s(self) -> float:
        """The processor time that it has used, in seconds; of a killed one, when it was killed.

        Where that cannot be read: how long it has lived.
        """
        if self.alive:
            try:
                self._cpu_s = time.clock_gettime(~self.pid << 3 | PROCESS_CLOCK)
            except OSError:
                self._cpu_s = time.monotonic() - self._born_s
        return self._cpu_s

    def works_for(self, limit_s: float, timeout_s: float) -> bool:
        """Wait for an answer to begin; False if it used `limit_s` of processor time or took `timeout_s`."""
        until_s, most_s = time.monotonic() + timeout_s, self.cpu_s + limit_s
        while not self.channel.has_news(
            max(LEAST_WAIT_S, min(most_s - self.cpu_s, until_s - time.monotonic()))
        ):
            if self.cpu_s >= most_s or time.monotonic() >= until_s:
                return False
        return True

    def ready(self, timeout_s: float = time_limits.START_WORKER_S) -> Greeting:
        """Wait until it has opened its device or compiler, and return its greeting.

        Raises:
            MissingDependencyError: there is no such device or compiler. BackendError: it did not start.
        """
        if self._greeting is None:
            try:
                self._greeting = codec.from_data(Greeting, dict(self._frame(timeout_s).body))
            except (WorkerDied, WorkerTimeout, KernelFault) as error:
                self.kill()
                raise BackendError(
                    f"a {self.role.backend} {self.role.kind} worker did not start: {error or 'no answer'}",
                    hint="run kcurate doctor",
                ) from error
        return self._greeting

    def call(
        self, request: Request[A], blobs: Mapping[str, Blob] | None = None, *, timeout_s: float
    ) -> Reply[A]:
        """Send a request and wait for the answer; any exception but `ProblemError` means a dead worker.

        Raises:
            KernelFault: the code that it ran failed. WorkerTimeout: no answer within `timeout_s` seconds.
            WorkerDied: the process died. ProblemError: the inputs asked for cannot be made.
            BackendError: our own code failed in the worker.
        """
        self.ask(request, blobs)
        return self.answer(timeout_s)

    def ask(self, request: Request[Any], blobs: Mapping[str, Blob] | None = None) -> None:
        """Send a request without waiting for the answer.

        Raises:
            WorkerDied: the process died. BackendError: it did not start.
        """
        self.ready()
        try:
            self.channel.send(pack_request(request), blobs)
            self._asked.append(type(request))
        except ChannelClosed as error:
            raise self._died() from error

    def answer(self, timeout_s: float, max_blob_bytes: int = MAX_BLOB_BYTES) -> Reply[Any]:
        """Wait for the answer to the oldest unanswered request; raises what `call` raises.

        Runs on the emulator have so many seconds of a processor: a busy machine changes no outcome.
        """
        asked = self._asked.popleft()
        emulates = (self.role.kind, self.role.backend) == ("run", "emulator")
        if emulates and not self.works_for(timeout_s, time_limits.STARVED * timeout_s):
            self.kill()
            raise WorkerTimeout(f"no answer within {timeout_s:.0f} s")
        frame = self._frame(timeout_s, max_blob_bytes)
        try:
            return Reply(read_answer(asked, frame.body), frame.blobs)
        except RecordError as error:
            self.kill()
            raise InvalidAnswer("the worker sent an invalid answer") from error

    def _frame(self, timeout_s: float, max_blob_bytes: int = MAX_BLOB_BYTES) -> Frame:
        try:
            frame = self.channel.receive(timeout_s, max_blob_bytes=max_blob_bytes)
        except ChannelTimeout as error:
            self.kill()
            raise WorkerTimeout(f"no answer within {timeout_s:.0f} s") from error
        except ChannelClosed as error:
            raise self._died() from error
        if "fault" in frame.body:
            self.kill()
            what = str(frame.body.get("what", ""))
            known = {reason: reason for reason in get_args(FaultReason)}
            raise KernelFault(known.get(frame.body["fault"], "launch_error"), what)
        if "problem" in frame.body:
            raise ProblemError(str(frame.body["problem"]))
        if "missing" in frame.body:
            self.kill()
            hint = frame.body.get("hint") or "run kcurate doctor"
            raise MissingDependencyError(str(frame.body["missing"]), hint=str(hint))
        if "error" in frame.body:
            self.kill()
            raise BackendError(f"a worker failed: {frame.body['error']}", hint="please report it")
        return frame

    def _died(self) -> WorkerDied:
        self.kill()
        return WorkerDied("the worker process died")

    def kill(self) -> None:
        """Kill the process and its children; safe to call twice."""
        if not self.alive:
            return
        self._cpu_s, self.alive = self.cpu_s, False
        self.channel.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.killpg(self.pid, signal.SIGKILL)
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def run_limited(
    command: Sequence[str], folder: str, limit_s: float, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str] | None:
    """Run a tool over candidates' code, with `folder` as its home; what it printed, on either stream.

    `more`: further environment variables. Beyond `MAX_OUTPUT_BYTES`, what it prints is dropped. None: it was
    killed after `limit_s` seconds, with all that it had started.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env={**worker_environment(folder), "LC_ALL": "C", **(more or {})},
        start_new_session=True,
    )
    try:
        output, _ = limited_output.collected(process, limit_s, MAX_OUTPUT_BYTES)
        text = output.decode("utf-8", "replace")
        return subprocess.CompletedProcess(command, process.returncode, text)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.stdout is not None
        process.stdout.close()  # what left the group of processes may still hold the other end


def worker_environment(folder: str) -> dict[str, str]:
    """All environment variables of a process that handles candidates' code; `folder` is its home."""
    kept = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    return kept | {
        "HOME": folder,
        "TMPDIR": folder,
        lock_files.FOLDER: lock_files.lock_folder(),
        "CUDA_CACHE_DISABLE": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        # A worker has one stream; without the default eight queues a context opens and closes twice as fast.
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


class Nursery:
    """The process that forks workers; it has imported what the backend and `languages` need.

    Raises:
        BackendError: it cannot be started.
    """

    def __init__(self, backend: str, *languages: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="kcurate-worker-")
        if backend == "emulator":  # workers cannot see the user's cache; building it takes 0.7 s
            toolchain.copy_runtime(Path(self._folder))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, json.dumps(sys.path), str(theirs.fileno()), backend, *languages],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=self._folder,
                env=worker_environment(self._folder),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise BackendError(f"cannot start workers: {error}", hint="run kcurate doctor") from error
        finally:
            theirs.close()
        self._control = ours
        self._control.settimeout(time_limits.START_WORKER_S)
        self._backend = backend
        self._asking = threading.Lock()
        self._others: dict[str, Nursery] = {}
        self._workers: weakref.WeakSet[Worker] = weakref.WeakSet()

    @property
    def alive(self) -> bool:
        """Whether it can fork workers."""
        return self._process.poll() is None

    def speaking(self, language: str) -> Nursery:
        """A nursery that has imported what another language needs; it ends with this one.

        Raises:
            BackendError: it cannot be started.
        """
        with self._asking:
            if language not in self._others:
                self._others[language] = Nursery(self._backend, language)
            return self._others[language]

    def fork(self, role: Role) -> Worker:
        """Start a worker without waiting for it (`Worker.ready` waits).

        Raises:
            BackendError: the nursery died.
        """
        channel, theirs = pair()
        try:
            reply = self._request(role, theirs.fileno())
        except OSError as error:
            channel.close()
            raise BackendError(f"cannot start workers: {error}", hint="run kcurate doctor") from error
        finally:
            theirs.close()
        if not reply:
            channel.close()
            raise BackendError("cannot start workers: the process that forks them died")
        worker = Worker(role, int(json.loads(reply)["pid"]), channel)
        self._workers.add(worker)
        return worker

    def _request(self, role: Role, fd: int) -> bytes:
        with self._asking:  # one thread may start a run worker while another replaces a compile worker
            socket.send_fds(self._control, [json.dumps(role.body()).encode()], [fd])
            return self._control.recv(4096)

    def close(self) -> None:
        """Kill all workers and end the nursery."""
        for other in self._others.values():
            other.close()
        for worker in list(self._workers):
            worker.kill()
        self._control.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
