"""Who may use a GPU when: any number at once, or one alone while it takes times.

Two advisory file locks a GPU, in the system's folder for temporary files, so that judges of one machine
heed each other whoever started them; the kernel gives a lock back when its process dies. A waiter for
exclusive use holds the gate, so newcomers cannot starve it.
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
    """The lock of one GPU. One object a process; not reentrant."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        folder = folder or default_folder()
        self._gate = _open(folder / f"kcurate-{name}-gate.lock")
        self._use = _open(folder / f"kcurate-{name}-use.lock")

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Use the GPU beside others; nobody takes times meanwhile."""
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
    """The lock of a device: a GPU's own name, since processes may number the same GPUs differently."""
    return environment.device_uuid or environment.backend


def default_folder() -> Path:
    """The system's folder for temporary files; a worker's is another, so it is told."""
    return Path(tempfile.gettempdir())


def _open(path: Path) -> int:
    """Readable by all users of the machine, so that one user's judge heeds another's."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(path, flags)  # asked for first: a sticky folder lets none create over another's
    except FileNotFoundError:
        handle = os.open(path, flags | os.O_CREAT, 0o666)
    with contextlib.suppress(PermissionError):
        os.fchmod(handle, 0o666)
    return handle
