"""Linux's Landlock: a process irrevocably drops rights to files, TCP and signals.

It needs no privilege, and children inherit the restrictions. Constants and structures: linux/landlock.h and
the kernel's documentation, "Landlock: unprivileged access control"; later kernels restrict more (`abi`).
Not covered: which process drops what (`kcurate.judge.workers.inside.isolation`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_VERSION = 1
RULE_PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
READING = EXECUTE | READ_FILE | READ_DIR
# Rights that change files: write, remove and make; ABI 2 adds rename, ABI 3 truncate.
CHANGING = WRITE_FILE | sum(1 << bit for bit in range(4, 13))
REFER, TRUNCATE = 1 << 13, 1 << 14
# Rights that apply to a single file.
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
BIND_TCP, CONNECT_TCP = 1, 2
SCOPE_ABSTRACT_SOCKET, SCOPE_SIGNAL = 1, 2


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def _syscall(number: int, *args: object) -> int:
    return int(ctypes.CDLL(None, use_errno=True).syscall(number, *args))


def abi() -> int:
    """The kernel's Landlock version; 0 if it has none."""
    return max(0, _syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(CREATE_VERSION)))


def restrict(*, writable: Iterable[Path], readable: Iterable[Path] | None = None) -> bool:
    """Allow changes only below `writable` and reads only below `readable` (None: everywhere).

    Also denies TCP (from ABI 4) and signals and abstract sockets to processes outside (from ABI 6); earlier
    kernels leave these allowed. False: the kernel has no Landlock, or refused. Missing folders are ignored.
    """
    version = abi()
    if not version:
        return False
    changing = CHANGING | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    handled = changing | (READING if readable is not None else 0)
    rules = _Ruleset(
        handled,
        BIND_TCP | CONNECT_TCP if version >= 4 else 0,
        SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL if version >= 6 else 0,
    )
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if ruleset < 0:
        return False
    try:
        for path in writable:
            _allow(ruleset, path, handled)
        for path in readable or ():
            _allow(ruleset, path, READING)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return _syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)) == 0
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, access: int) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            kept = access if path.is_dir() else access & OF_FILES
            rule = _PathBeneath(kept, handle)
            _syscall(
                ADD_RULE,
                ctypes.c_int(ruleset),
                ctypes.c_int(RULE_PATH_BENEATH),
                ctypes.byref(rule),
                ctypes.c_uint32(0),
            )
        finally:
            os.close(handle)
