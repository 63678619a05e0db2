"""The host's C++ compiler: which one there is, its options, and the runtime's object file, made once.

`g++`, else `clang++`, else the clang of the `ziglang` wheel. Not covered: what is compiled (`source`),
limits on time and memory (`kcurate.judge.isolation`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import platformdirs

from kcurate.backends.emulator.source import INCLUDE, declared
from kcurate.errors import BackendError, MissingDependencyError

RUNTIME = Path(__file__).with_name("runtime")
COMMON = (
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-U_FORTIFY_SOURCE",
    "-fcf-protection=none",
)
# As device code computes: no contraction (the same results with and without FMA hardware), integers wrap,
# pointers may alias, and an array's length is a constant, as every CUDA compiler asks. Not `-w`: with it, g++
# drops this error too; the compiler's warnings are cut from its message instead.
DEVICE = (
    "-std=gnu++17",
    "-O2",
    "-Wno-narrowing",
    "-Werror=vla",
    "-nostdinc",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-threadsafe-statics",
    "-fno-stack-protector",
    "-fstack-clash-protection",
    "-fno-asynchronous-unwind-tables",
    "-fmax-errors=20",
    "-fdiagnostics-color=never",
)
SANITIZE = (
    "-fsanitize=bounds",
    "-fsanitize-undefined-trap-on-error",
    "-ftrivial-auto-var-init=pattern",
)
TIMEOUT_S = 60.0
# About 40 KB each.
MAX_KEPT = 5000


@dataclass(frozen=True)
class Toolchain:
    """A compiler: how it is called, its first line of `--version`, its options for this machine, and how a
    shared object is linked (`linker` None: by the compiler itself)."""

    command: tuple[str, ...]
    version: str
    machine: tuple[str, ...]
    linker: tuple[str, ...] | None = None


@cache
def find() -> Toolchain:
    """The compiler of this machine.

    Raises:
        MissingDependencyError: there is none.
    """
    for name in ("g++", "clang++"):
        path = shutil.which(name)
        if path and (version := _version((path,))):
            return Toolchain((path,), version, _machine_options())
    wheel = importlib.util.find_spec("ziglang")
    for folder in (wheel.submodule_search_locations or ()) if wheel else ():
        zig = str(Path(folder) / "zig")
        if version := _version((zig, "c++")):
            # As a linker, `zig c++` first builds C and C++ libraries (about a minute); nothing needs them.
            options = ("-fno-sanitize=undefined", *_machine_options())
            return Toolchain((zig, "c++"), f"{version} (ziglang wheel)", options, (zig, "ld.lld"))
    raise MissingDependencyError(
        "no C++ compiler for the emulator",
        hint="apt-get install g++, or pip install 'kcurate[emulator]'",
    )


def _version(command: tuple[str, ...]) -> str | None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if not done.returncode and done.stdout.strip():
            return done.stdout.splitlines()[0].strip()
    return None


def _machine_options() -> tuple[str, ...]:
    """FMA and half conversions in hardware where this processor has them (x86-64 from 2013 on)."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ()
    flags: set[str] = set()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                flags = set(line.split())
                break
    return tuple(f"-m{name}" for name in ("fma", "f16c", "avx2") if name in flags)


def cache_folder() -> Path:
    """Where compiled code is kept."""
    return Path(platformdirs.user_cache_dir("kcurate")) / "emulator"


def prune(most: int = MAX_KEPT) -> None:
    """Drop the oldest files of the cache beyond `most`; others may do the same at the same time."""
    with contextlib.suppress(OSError):
        kept = sorted(cache_folder().iterdir(), key=lambda path: path.stat().st_mtime)
        for path in kept[: max(0, len(kept) - most)]:
            path.unlink(missing_ok=True)


def runtime_object() -> bytes:
    """The compiled runtime: from the cache, else made now and kept where that is possible.

    Raises:
        BackendError: our own code does not compile.
    """
    tools = find()
    key = hashlib.sha256(repr((tools, COMMON)).encode())
    for path in sorted((*RUNTIME.iterdir(), INCLUDE / "kcurate" / "abi.h")):
        key.update(path.read_bytes())
    kept = cache_folder() / f"runtime-{key.hexdigest()[:32]}.o"
    if kept.is_file():
        return kept.read_bytes()
    with tempfile.TemporaryDirectory(prefix="kcurate-emulator-") as name:
        made = Path(name) / "runtime.o"
        options = ("-std=gnu++17", "-O2", *COMMON, *tools.machine, "-c", str(RUNTIME / "runtime.cpp"))
        done = run([*tools.command, *options, "-o", str(made)], Path(name))
        if done.returncode:
            raise BackendError(
                f"the emulator's runtime does not compile: {done.stderr[-2000:]}", where="emulator"
            )
        data = made.read_bytes()
    keep(kept, data)
    return data


@cache
def builtins() -> frozenset[str]:
    """The functions that code sees without a header of its own choice, and some words more.

    Raises:
        BackendError: our own headers cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="kcurate-emulator-") as name:
        options = (*DEVICE, *COMMON, f"-I{INCLUDE}", "-E", "-P", "-x", "c++")
        done = run([*find().command, *options, str(INCLUDE / "kcurate" / "all.h")], Path(name))
    if done.returncode:
        raise BackendError(f"the emulator's headers: {done.stderr[-2000:]}", where="emulator")
    return declared(done.stdout)


def shared_object(
    unit: str, options: Sequence[str], runtime: bytes, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Compile `unit` and link it with the runtime to `side.so` in `folder`; the log when that fails.

    Raises:
        subprocess.TimeoutExpired: it ran past `TIMEOUT_S`.
    """
    tools = find()
    (folder / "side.cpp").write_text(unit)
    (folder / "runtime.o").write_bytes(runtime)
    compiling = [*tools.command, *options, *COMMON, f"-I{INCLUDE}", "side.cpp"]
    linking = ["-shared", "--as-needed", "-z", "now", "runtime.o", "-o", "side.so"]
    if tools.linker is None:
        return run([*compiling, *(_through_driver(word) for word in linking), "-lm"], folder)
    done = run([*compiling, "-c", "-o", "side.o"], folder)
    return done if done.returncode else run([*tools.linker, "side.o", *linking], folder)


def _through_driver(word: str) -> str:
    """A linker's option as the compiler's driver takes it."""
    return {"--as-needed": "-Wl,--as-needed", "-z": "-Wl,-z", "now": "-Wl,now"}.get(word, word)


def keep(path: Path, data: bytes) -> bool:
    """Write a file of the cache as a whole, also while others write it; False when that is not possible."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return False
    return True


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a compiler in a folder of its own; everything that it writes lies there.

    Raises:
        subprocess.TimeoutExpired: it ran past `TIMEOUT_S`.
    """
    place = str(folder)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "HOME": place,
        "TMPDIR": place,
        "ZIG_LOCAL_CACHE_DIR": place,
        "ZIG_GLOBAL_CACHE_DIR": place,
    }
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=False,
    )
