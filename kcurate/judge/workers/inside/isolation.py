"""The sandbox of a worker, entered before it handles a candidate's code, and what this machine can enforce.

Compile workers: they change nothing but their empty folder and read nothing but that, headers, the compiler
and shared libraries; no TCP, limits on memory and file size. Emulator run workers, which run a candidate's
code natively, and workers that compile Triton, which
execute its text: also no writing at all, no reading except libraries, and a filter on system calls. CUDA run
workers: no writing outside /dev and /proc (the driver writes there), no TCP; no memory limit, since the
driver reserves address space freely, and no filter, since device code makes no system calls. Not covered:
the filter (`kcurate.backends.emulator.seccomp`), time limits (`kcurate.judge.workers.nursery`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import signal
import site
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kcurate.judge.workers.inside import landlock, mounts

GIB = 1 << 30
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
COMPILE_MEMORY_BYTES = 6 * GIB
RUN_MEMORY_BYTES = 16 * GIB
MAX_FILE_BYTES = 1 * GIB
# Files in memory, which count as nobody's: so many of so many bytes. A side has kilobytes, an extension
# megabytes, and each is one file.
MAX_MEMORY_FILES, MAX_MEMORY_FILE_BYTES = 1024, GIB // 32
LANDLOCK_WITH_TCP = 4
# Architectures that the emulator's system call filter supports.
FILTERED = ("x86_64", "aarch64")


@dataclass(frozen=True)
class Protection:
    """One protection, whether it is in force on this machine, and what it does."""

    name: str
    on: bool
    detail: str


def die_with_parent() -> None:
    """What hangs must not outlive its parent, which cannot end it when it is killed itself."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def enter(
    kind: str,
    backend: str,
    language: str = "cuda",
    also: Iterable[Path] = (),
    readable: Iterable[Path] | None = None,
) -> dict[str, bool]:
    """Sandbox this process irrevocably; which protections are in force, by name.

    `also`: folders in which a CUDA run worker may write. `readable`: all that a compile worker may read.
    """
    cwd = Path.cwd()
    die_with_parent()
    _limit(kind, backend)
    network = _leave_network()
    # The folder also holds the compiler's cache, so a run worker may not write there.
    native = (backend == "emulator" and kind == "run") or language == "triton"
    writable = [Path("/dev/null")] if kind == "run" or native else [cwd, Path("/dev/null")]
    if backend == "cuda" and kind == "run":
        writable = [Path("/dev"), Path("/proc"), *also]
    inside = {
        "limits": True,
        "network": network,
        "files": _confine(writable, _libraries() if native else readable),
    }
    if native:
        from kcurate.backends.emulator import seccomp

        inside["seccomp"] = seccomp.restrict()
    return inside


def _confine(writable: Iterable[Path], readable: Iterable[Path] | None) -> bool:
    """Restrict files by Landlock, else, if reading is restricted, by a mount namespace."""
    if landlock.restrict(writable=writable, readable=readable):
        return True
    return readable is not None and mounts.restrict(writable=writable, readable=readable)


def confined() -> bool:
    """Whether this machine can keep compilers from reading other files; changes nothing."""
    return landlock.abi() > 0 or mounts.available()


def enter_folder(folder: Path, readable: Iterable[Path]) -> None:
    """Sandbox this process irrevocably, and what it starts: Python that is not ours, compilers, and a GPU.

    It changes files only below `folder`, /dev and /proc, reads libraries and `readable`, and has no network.
    """
    _limit("run", "cuda")
    _leave_network()
    tools = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    system = map(Path, ("/bin", "/sbin", "/etc", "/sys", "/dev", "/proc"))
    landlock.restrict(
        writable=[folder, Path("/dev"), Path("/proc")],
        readable=[*_libraries(), *system, *tools, *readable, folder],
    )


def _libraries() -> list[Path]:
    """Folders of libraries that a process may still have to load."""
    package = Path(__file__).resolve().parents[3]
    prefixes = [Path(prefix) for prefix in {sys.prefix, sys.base_prefix, *site.getsitepackages()}]
    # Of a user's own packages (`pip install --user`), or on PYTHONPATH.
    prefixes += [path for path in map(Path, sys.path) if path.name in ("site-packages", "dist-packages")]
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy_folder = Path(str(numpy.__file__)).parent
        prefixes += [numpy_folder, numpy_folder.with_name("numpy.libs")]
    if "triton" in sys.modules:
        from kcurate.backends.triton.installed import folder as triton_folder

        prefixes.append(triton_folder())
    return [*prefixes, package, *map(Path, ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/proc/self/fd"))]


def _limit(kind: str, backend: str) -> None:
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: MAX_FILE_BYTES}
    if kind == "compile":
        limits[resource.RLIMIT_AS] = _address_space_bytes() + COMPILE_MEMORY_BYTES
    elif backend == "emulator":
        limits[resource.RLIMIT_NOFILE] = MAX_MEMORY_FILES
        limits[resource.RLIMIT_FSIZE] = MAX_MEMORY_FILE_BYTES
        limits[resource.RLIMIT_AS] = _address_space_bytes() + RUN_MEMORY_BYTES
    for which, value in limits.items():
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (value, value))


def _address_space_bytes() -> int:
    """What this process has reserved so far: gigabytes with NVRTC or PyTorch for GPUs on many cores."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 0


def _leave_network() -> bool:
    """Enter an empty network namespace; needs privilege (without it, Landlock removes TCP)."""
    return bool(ctypes.CDLL(None, use_errno=True).unshare(ctypes.c_int(CLONE_NEWNET)) == 0)


def describe() -> tuple[Protection, ...]:
    """The protections in force on this machine, for `kcurate doctor`; changes nothing."""
    version = landlock.abi()
    files = f"Landlock {version}: workers write in a folder of their own; compilers read headers alone"
    if not version and confined():
        files = "a mount namespace: compilers see their own folder and headers alone (no Landlock)"
    if os.geteuid() == 0:
        network = Protection("network", True, "workers have an empty network namespace")
    elif version >= LANDLOCK_WITH_TCP:
        network = Protection("network", True, "Landlock refuses TCP")
    else:
        network = Protection("network", False, "needs root, or Linux 6.7 with Landlock")
    return (
        Protection("processes", True, "a fresh process per candidate, in its own session, without secrets"),
        Protection("limits", True, "time, memory, file size"),
        Protection("files", confined(), files if confined() else "compilers can read every file"),
        network,
        Protection(
            "system calls", platform.machine() in FILTERED, "emulator workers start no process or connection"
        ),
    )
