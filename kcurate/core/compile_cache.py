"""Results of compilers, kept in files by key for later runs and for the processes of one run.

A key is a hash of everything that the result depends on: text, options, compiler, headers. Each folder is
bounded; the least recently used files are deleted first. Not covered: what is compiled, and which processes
may write.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path

import platformdirs

# For one compiler. A side for the emulator has about 40 KB, a record of NVRTC's 1 KB.
MAX_FILES, MAX_BYTES = 20_000, 1 << 29
# One file in so many that are kept looks whether there are too many.
LOOK_EACH = 256
_DIGEST_BYTES = 32


def folder(compiler: str) -> Path:
    """The folder of one compiler's results."""
    return Path(platformdirs.user_cache_dir("kcurate")) / compiler


def key(*parts: object) -> str:
    """A hash of the parts, by their `repr`."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]


def find(path: Path) -> bytes | None:
    """The content of a file; None if it is missing or incomplete."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        return None
    with contextlib.suppress(OSError):
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
    return content


def keep(path: Path, content: bytes) -> bool:
    """Write a file atomically, safely for concurrent writers; False if it cannot be written."""
    digest = hashlib.sha256(content).digest()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content + digest)  # a shared object loads with bytes behind it
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return False
    if int.from_bytes(digest[:4], "big") % LOOK_EACH == 0:
        prune(path.parent)
    return True


def prune(place: Path) -> None:
    """Delete the oldest files beyond the limits; safe when others do the same concurrently."""
    with contextlib.suppress(OSError):
        files = sorted(((path, path.stat()) for path in place.iterdir()), key=lambda file: -file[1].st_atime)
        size = 0
        for count, (path, status) in enumerate(files):
            size += status.st_size
            if count >= MAX_FILES or size > MAX_BYTES:
                path.unlink(missing_ok=True)
