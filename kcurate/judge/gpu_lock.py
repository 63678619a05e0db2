"""Shared or exclusive use of a GPU: any number of workers at once, or one timing alone.

Two advisory file locks per GPU in the system's temporary folder, so that judges of different users wait for
each other; the kernel releases a dead process's locks. A waiter for exclusive use holds the gate, so that
newcomers cannot starve it. Not covered: what needs which lock (`kcurate.judge.judging`,
`kcurate.judge.verifying`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kcurate.records import Environment


class GpuLock:
    """The lock of one GPU. Not reentrant."""

    def __init__(self, name: str) -> None:
        folder = Path(tempfile.gettempdir())
        self._gate = _open(folder / f"kcurate-{name}-gate.lock")
        self._use = _open(folder / f"kcurate-{name}-use.lock")

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Use the GPU alongside others; nobody times anything meanwhile."""
        with self._hold(fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Use the GPU alone."""
        with self._hold(fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def _hold(self, kind: int) -> Iterator[None]:
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._use, kind)
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._use, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files."""
        os.close(self._gate)
        os.close(self._use)


def lock_name(environment: Environment) -> str:
    """The lock's name: the GPU's UUID, since processes may number the same GPUs differently."""
    return environment.device_uuid or environment.backend


def _open(path: Path) -> int:
    """Open a lock file that every user of the machine can lock."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(path, flags)  # no O_CREAT: in a sticky folder it fails on another user's file
    except FileNotFoundError:
        handle = os.open(path, flags | os.O_CREAT, 0o666)
    with contextlib.suppress(PermissionError):
        os.fchmod(handle, 0o666)
    return handle
