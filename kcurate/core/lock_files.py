"""Advisory locks between the processes of one machine, as files in the system's temporary folder.

The operating system releases the locks of a dead process. A process whose temporary folder differs finds them
through the environment variable `FOLDER`. Not covered: what the locks protect (`kcurate.judge.gpu_lock`,
`kcurate.backends.cuda.driver`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

FOLDER = "_KCURATE_LOCKS"


def lock_folder() -> str:
    """The folder of the locks."""
    return os.environ.get(FOLDER) or tempfile.gettempdir()


def open_lock(name: str) -> int:
    """A file descriptor of a lock that every user of the machine can take."""
    path = Path(lock_folder()) / f"kcurate-{name}.lock"
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(path, flags)  # no O_CREAT: in a sticky folder it fails on another user's file
    except FileNotFoundError:
        handle = os.open(path, flags | os.O_CREAT, 0o666)
    with contextlib.suppress(PermissionError):
        os.fchmod(handle, 0o666)
    return handle


@contextlib.contextmanager
def held(handle: int, kind: int) -> Iterator[None]:
    """Hold a lock, shared or exclusive (`fcntl.LOCK_SH`, `fcntl.LOCK_EX`); waits for it."""
    fcntl.flock(handle, kind)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def is_free(handle: int) -> bool:
    """Whether nobody holds a lock at the moment."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(handle, fcntl.LOCK_UN)
    return True
