"""Shared or exclusive use of a GPU: any number of workers at once, or timings one after the other.

Advisory file locks per GPU in the system's temporary folder, so that judges of different users wait for each
other; the kernel releases a dead process's locks. Whoever wants to time waits for a moment without workers,
or for company, because the GPU idles while the last of the workers finish: timings that are ready together
then run in a row, and no worker enters meanwhile. Not covered: what needs which lock
(`kcurate.judge.judging`, `kcurate.judge.verifying`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kcurate.records import Environment

# How long a timing waits for a moment without workers, and how often it looks, in seconds.
PATIENCE_S = 0.5
LOOK_S = 0.004


class GpuLock:
    """The lock of one GPU. Not reentrant."""

    def __init__(self, name: str) -> None:
        folder = Path(tempfile.gettempdir())
        # Workers pass the entry one by one, when no timing is registered.
        self._entry, self._workers, self._timings, self._turn = (
            _open(folder / f"kcurate-{name}-{what}.lock") for what in ("entry", "workers", "timings", "turn")
        )

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Use the GPU alongside others; nobody times anything meanwhile."""
        with _held(self._entry, fcntl.LOCK_EX), _held(self._timings, fcntl.LOCK_EX):
            fcntl.flock(self._workers, fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self._workers, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Use the GPU alone."""
        until = time.monotonic() + PATIENCE_S
        while not (_free(self._workers) or not _free(self._timings) or time.monotonic() > until):
            time.sleep(LOOK_S)
        with (
            _held(self._timings, fcntl.LOCK_SH),
            _held(self._turn, fcntl.LOCK_EX),
            _held(self._workers, fcntl.LOCK_EX),
        ):
            yield

    def close(self) -> None:
        """Close the files."""
        for handle in (self._entry, self._workers, self._timings, self._turn):
            os.close(handle)


@contextlib.contextmanager
def _held(handle: int, kind: int) -> Iterator[None]:
    """Hold a lock."""
    fcntl.flock(handle, kind)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def _free(handle: int) -> bool:
    """Whether nobody holds a lock at the moment."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(handle, fcntl.LOCK_UN)
    return True


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
