"""What a worker gives up before it meets code of a candidate, and what of that this machine can enforce.

Compile workers: the file system is read-only but for their empty folder, no TCP, limits on memory and file
size. Emulator run workers, which run a candidate's code natively: the same, and reading only of libraries,
and a filter that refuses new processes, sockets and the like (`kcurate.backends.emulator.seccomp`). CUDA run
workers: no writing outside /dev and /proc (the driver writes there), no TCP; a memory limit would break the
driver, which reserves address space freely, and device code cannot make system calls. Time limits are the
parent's (`kcurate.judge.workers.nursery`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import site
import sys
from dataclasses import dataclass
from pathlib import Path

from kcurate.judge.workers.inside import landlock

GIB = 1 << 30
CLONE_NEWNET = 0x40000000
COMPILE_MEMORY_BYTES = 6 * GIB
RUN_MEMORY_BYTES = 16 * GIB
MAX_FILE_BYTES = 1 * GIB
LANDLOCK_WITH_TCP = 4
# Machines whose system calls the emulator's filter knows.
FILTERED = ("x86_64", "aarch64")


@dataclass(frozen=True)
class Measure:
    """One protection: whether it is in force here, and what it does."""

    name: str
    on: bool
    detail: str


def enter(kind: str, backend: str) -> dict[str, bool]:
    """Shut this worker in, for good; which protections took hold, by name."""
    cwd = Path.cwd()
    limits = _limits(kind, backend)
    for which, value in limits.items():
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (value, value))
    network = _leave_network()
    # The folder also holds what compiling keeps, so nothing that runs a candidate's code may write there.
    writable = [cwd, Path("/dev/null")] if kind == "compile" else [Path("/dev/null")]
    if backend == "cuda" and kind == "run":
        writable = [Path("/dev"), Path("/proc")]
    native = backend == "emulator" and kind == "run"
    inside = {
        "limits": True,
        "network": network,
        "landlock": landlock.restrict(writable=writable, readable=_libraries() if native else None),
    }
    if native:
        from kcurate.backends.emulator import seccomp

        inside["seccomp"] = seccomp.restrict()
    return inside


def _libraries() -> list[Path]:
    """Where a process finds code that it still has to load."""
    package = Path(__file__).resolve().parents[3]
    prefixes = [Path(prefix) for prefix in {sys.prefix, sys.base_prefix, *site.getsitepackages()}]
    return [*prefixes, package, *map(Path, ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/proc/self"))]


def _limits(kind: str, backend: str) -> dict[int, int]:
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: MAX_FILE_BYTES}
    if kind == "compile":
        limits[resource.RLIMIT_AS] = COMPILE_MEMORY_BYTES
    elif backend == "emulator":
        limits[resource.RLIMIT_AS] = RUN_MEMORY_BYTES
    return limits


def _leave_network() -> bool:
    """Move to a network of our own with nothing in it (needs privilege; Landlock takes TCP without)."""
    return bool(ctypes.CDLL(None, use_errno=True).unshare(ctypes.c_int(CLONE_NEWNET)) == 0)


def describe() -> tuple[Measure, ...]:
    """What is in force on this machine, for `kcurate doctor`; tries nothing that lasts."""
    version = landlock.abi()
    files = f"Landlock {version}: workers cannot write outside a folder of their own"
    if os.geteuid() == 0:
        network = Measure("network", True, "workers have a network namespace with nothing in it")
    elif version >= LANDLOCK_WITH_TCP:
        network = Measure("network", True, "Landlock refuses TCP")
    else:
        network = Measure("network", False, "needs root, or Linux 6.7 with Landlock")
    return (
        Measure("processes", True, "a fresh process a candidate, in a session of its own, without secrets"),
        Measure("limits", True, "time, memory, file size"),
        Measure("files", version > 0, files if version else "this kernel has no Landlock"),
        network,
        Measure(
            "system calls", platform.machine() in FILTERED, "the emulator's workers start and reach nothing"
        ),
    )
