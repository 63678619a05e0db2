"""A mount namespace in which only some folders exist: restricts reading on kernels without Landlock.

It needs CAP_SYS_ADMIN or, where the system allows that, a new user namespace. Constants:
linux/mount.h, linux/sched.h; the steps are those of pivot_root(2). Not covered: which folders a process needs
(`kcurate.judge.workers.inside.isolation`).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MS_REC, MS_PRIVATE = 16384, 1 << 18
# Flags of a mount that a user namespace may not take away.
LOCKED = MS_NOSUID | MS_NODEV | MS_NOEXEC
MNT_DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}  # libc has no function for this system call
PROBE_S = 20.0


def restrict(*, writable: Iterable[Path], readable: Iterable[Path]) -> bool:
    """Hide all other files and folders from this process, irrevocably; False: the system refuses.

    Missing paths are ignored. Must be called before the process starts threads.
    """
    here = Path.cwd()
    try:
        root = Path(tempfile.mkdtemp(dir=here))
        _enter()
        _mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV)
        for path in readable:
            _bind(path, root, MS_RDONLY)
        for path in writable:
            _bind(path, root, 0)
        (root / "old").mkdir()
        pivot_root = PIVOT_ROOT[os.uname().machine]
        _check(_libc().syscall(pivot_root, os.fsencode(root), os.fsencode(root / "old")))
        os.chdir(here if here.exists() else "/")
        _check(_libc().umount2(b"/old", MNT_DETACH))
        _mount("none", Path("/"), None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    except (OSError, KeyError):
        return False
    return True


@cache
def available() -> bool:
    """Whether this user's processes may enter such a namespace; a child process tries it."""
    code = "from kcurate.judge.workers.inside import mounts; mounts._enter()"
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PROBE_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return not done.returncode


def _enter() -> None:
    """Enter a new mount namespace, inside a new user namespace if that is required.

    Raises:
        OSError: the system refuses.
    """
    libc, uid, gid = _libc(), os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNS):
        _check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _mount("none", Path("/"), None, MS_REC | MS_PRIVATE)


def _bind(path: Path, root: Path, flags: int) -> None:
    """Bind-mount a file or folder at the same path below `root`."""
    if not path.exists():
        return
    place = root / path.absolute().relative_to("/")
    if place.exists() and flags:  # read-only, and inside a folder that is mounted already
        return
    if path.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    _mount(str(path), place, None, MS_BIND)  # ignores other flags; the remount sets them
    kept = os.statvfs(place).f_flag & LOCKED
    _mount("none", place, None, MS_REMOUNT | MS_BIND | flags | kept)


def _mount(source: str, target: Path, kind: str | None, flags: int) -> None:
    name = kind.encode() if kind else None
    _check(_libc().mount(source.encode(), os.fsencode(target), name, ctypes.c_ulong(flags), None))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
