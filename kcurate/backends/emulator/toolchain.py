"""The host's C++ compiler: finding it, its options, and the runtime's object file, built once.

`g++`, else `clang++`, else the clang of the `ziglang` wheel. Not covered: what is compiled (`source`), time
and memory limits (`kcurate.judge.workers.inside.isolation`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kcurate.backends.emulator.source import INCLUDE, declared
from kcurate.core import compile_cache, time_limits
from kcurate.errors import BackendError, MissingDependencyError

RUNTIME = Path(__file__).with_name("runtime")
LAYOUT = RUNTIME / "shared.ld"
COMMON = (
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-U_FORTIFY_SOURCE",
    "-fcf-protection=none",
)
# The arithmetic of device code: no contraction (the same results with and without FMA hardware), except in
# `TURNS`, wrapping integers, pointers that may alias. Array lengths must be constant, as CUDA compilers
# require; `-w` would suppress that error in g++, so warnings are removed from the message instead.
DEVICE = (
    "-std=gnu++17",
    "-Ulinux",  # a predefined macro that could collide with a side's names
    "-Uunix",
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
    "-fdata-sections",  # for `LAYOUT`
    "-fmax-errors=20",
    "-fdiagnostics-color=never",
)
SANITIZE = ("-fsanitize=bounds", "-fsanitize-undefined-trap-on-error", "-ftrivial-auto-var-init=pattern")
# Call the runtime (`runtime/counting.h`) in each basic block and at each memory access. Loops are neither
# unrolled nor vectorised, so that equal work has equal counts on both sides.
COUNTING = (
    "-fsanitize-coverage=trace-pc",
    "-fsanitize=kernel-address",
    "-fno-unroll-loops",
    "-fno-tree-vectorize",
    "-fno-optimize-sibling-calls",  # the runtime identifies its caller by the return address
)
# Call the runtime at each memory access, where it may switch to another thread (`runtime/scheduler.h`).
# Locals that nothing sets hold other values than in the side's own build, and sums of products are
# contracted, as NVRTC does: what depends on either differs.
TURNS = ("-fsanitize=thread", "-DKCU_TURNS", "-ftrivial-auto-var-init=pattern", "-ffp-contract=fast")
# A volatile access is told from others; vectors are read and written whole, also where parts are not used.
_ACCESSES = {
    "gcc": ("--param=tsan-distinguish-volatile=1", "-fno-tree-sra"),
    "clang": ("-mllvm", "-tsan-distinguish-volatile"),
}
# Options of g++ and of clang for calls instead of inline checks of shadow memory.
_CALLS = {
    "gcc": (
        "--param=asan-instrumentation-with-call-threshold=0",
        "--param=asan-globals=0", "--param=asan-stack=0",
    ),
    "clang": (
        "-mllvm", "-asan-instrumentation-with-call-threshold=0", "-mllvm", "-asan-globals=0",
        "-mllvm", "-asan-stack=0",
    ),
}  # fmt: skip
# Linker options in the form that the compiler driver takes.
_DRIVER_FORM = {
    word: f"-Wl,{word}" for word in ("--as-needed", "-z", "now", "defs", "--warn-unresolved-symbols")
}
# Section types (System V ABI, "Sections"), and what compilers put in place of loops and assignments.
_SYMTAB, _DYNSYM = 2, 11
_COPIES = frozenset({"memcpy", "memmove", "memset", "memcmp"})


@dataclass(frozen=True)
class Toolchain:
    """A compiler: its command, the first line of `--version`, options for this machine, and the linker for
    shared objects (None: the compiler links them)."""

    command: tuple[str, ...]
    version: str
    machine: tuple[str, ...]
    linker: tuple[str, ...] | None = None


@cache
def find() -> Toolchain:
    """The C++ compiler of this machine.

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
            # As a linker, `zig c++` first builds C and C++ libraries (about a minute) that nothing needs.
            options = ("-fno-sanitize=undefined", *_machine_options())
            return Toolchain((zig, "c++"), f"{version} (ziglang wheel)", options, (zig, "ld.lld"))
    raise MissingDependencyError(
        "no C++ compiler for the emulator", hint="apt-get install g++, or pip install 'kcurate[emulator]'"
    )


def turns_options() -> tuple[str, ...]:
    """The options for switching threads at memory accesses."""
    return (*TURNS, *_ACCESSES["clang" if "clang" in find().version else "gcc"])


def counting_options() -> tuple[str, ...]:
    """The options for counting what a side does."""
    return (*COUNTING, *_CALLS["clang" if "clang" in find().version else "gcc"])


def _version(command: tuple[str, ...]) -> str | None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [*command, "--version"],
            capture_output=True,
            text=True,
            timeout=time_limits.COMPILE_FOR_EMULATOR_S,
            check=False,
        )
        if not done.returncode and done.stdout.strip():
            return done.stdout.splitlines()[0].strip()
    return None


def _machine_options() -> tuple[str, ...]:
    """FMA and half-precision conversions in hardware, if this CPU has them (x86-64 since 2013)."""
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
    """The cache folder for compiled code."""
    return compile_cache.folder("emulator")


def runtime_object() -> bytes:
    """The compiled runtime: from the cache, else built now and cached if possible.

    Raises:
        BackendError: our own code does not compile.
    """
    tools = find()
    cached = cache_folder() / _runtime_name()
    if (known := compile_cache.find(cached)) is not None:
        return known
    with tempfile.TemporaryDirectory(prefix="kcurate-emulator-") as name:
        output = Path(name) / "runtime.o"
        options = ("-std=gnu++17", "-O2", *COMMON, *tools.machine, "-c", str(RUNTIME / "runtime.cpp"))
        done = run([*tools.command, *options, "-o", str(output)], Path(name))
        if done.returncode:
            what = f"the emulator's runtime does not compile: {done.stderr[-2000:]}"
            raise BackendError(what, where="emulator")
        data = output.read_bytes()
    compile_cache.keep(cached, data)
    return data


def copy_runtime(home: Path) -> None:
    """Copy the compiled runtime into the cache of a process with this home, so that it need not build it.

    If the runtime cannot be built here, nothing is copied, and that process reports the reason.
    """
    with contextlib.suppress(MissingDependencyError, BackendError, subprocess.TimeoutExpired):
        compile_cache.keep(home / ".cache" / "kcurate" / "emulator" / _runtime_name(), runtime_object())


def _runtime_name() -> str:
    """The runtime's file name in the cache, which depends on the compiler and on our code."""
    key = hashlib.sha256(repr((find(), COMMON)).encode())
    shared = (INCLUDE / "kcurate" / name for name in ("abi.h", "tensor_map.h"))
    for path in sorted((*RUNTIME.iterdir(), *shared)):
        key.update(path.read_bytes())
    return f"runtime-{key.hexdigest()[:32]}.o"


@cache
def builtins() -> frozenset[str]:
    """The functions that code sees without including a header, and possibly other words.

    Raises:
        BackendError: our own headers cannot be read.
    """
    return declared(_preprocessed())


@cache
def _preprocessed() -> str:
    """The preprocessed declarations that code sees without including a header."""
    with tempfile.TemporaryDirectory(prefix="kcurate-emulator-") as name:
        options = (*DEVICE, *COMMON, f"-I{INCLUDE}", "-E", "-P", "-x", "c++")
        done = run([*find().command, *options, str(INCLUDE / "kcurate" / "all.h")], Path(name))
    if done.returncode:
        raise BackendError(f"the emulator's headers: {done.stderr[-2000:]}", where="emulator")
    return done.stdout


# The linker reports undefined symbols but continues: functions of the C library are resolved when it is
# loaded.
UNRESOLVED = ("-z", "defs", "--warn-unresolved-symbols")
SIDE_OBJECT, SIDE_LIBRARY = "side.o", "side.so"


def shared_object(
    unit: str, options: Sequence[str], runtime: bytes, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Compile `unit` to `SIDE_OBJECT` and link it with the runtime to `SIDE_LIBRARY`, both in `folder`; the
    result holds the log.

    Raises:
        subprocess.TimeoutExpired: it exceeded `time_limits.COMPILE_FOR_EMULATOR_S`.
    """
    tools = find()
    (folder / "side.cpp").write_text(unit)
    (folder / "runtime.o").write_bytes(runtime)
    compiling = [*tools.command, *options, *COMMON, f"-I{INCLUDE}", "side.cpp", "-c", "-o", SIDE_OBJECT]
    done = run(compiling, folder)
    if done.returncode:
        return done
    linking = [
        SIDE_OBJECT,
        "-shared",
        "--as-needed",
        "-z",
        "now",
        *UNRESOLVED,
        "runtime.o",
        "-o",
        SIDE_LIBRARY,
    ]
    if tools.linker is not None:
        return run([*tools.linker, *linking], folder)
    words = [_DRIVER_FORM.get(word, word) for word in linking]
    if "clang" not in tools.version:
        (folder / LAYOUT.name).write_bytes(LAYOUT.read_bytes())
        words.append(f"-Wl,-T,{LAYOUT.name}")
    return run([*tools.command, "-nodefaultlibs", *words, "-lm", "-lgcc", "-lc"], folder)


def foreign(folder: Path, runtime: bytes) -> list[str]:
    """The external symbols that a side in `folder` uses beyond the runtime and our headers.

    The runtime calls the C library; a side may call only its mathematical functions.
    """
    needed = _symbols((folder / SIDE_OBJECT).read_bytes(), defined=False)
    needed &= _symbols((folder / SIDE_LIBRARY).read_bytes(), defined=False)
    needed -= _symbols(runtime, defined=True)
    return sorted(needed - _of_c()) if needed else []


@cache
def _symbols(elf: bytes, *, defined: bool) -> frozenset[str]:
    """The names that an object or a shared object defines, or that it needs (ELF for 64 bits)."""
    (at,), (size, count) = struct.unpack_from("<Q", elf, 40), struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, at + i * size) for i in range(count)]
    relocatable = struct.unpack_from("<H", elf, 16)[0] == 1
    names: set[str] = set()
    for _, kind, _, _, start, length, strings, *_ in sections:
        if kind != (_SYMTAB if relocatable else _DYNSYM):
            continue
        for place in range(start, start + length, 24):
            name, _, _, section = struct.unpack_from("<IBBH", elf, place)
            if name and (section != 0) == defined:
                first = sections[strings][4] + name
                names.add(elf[first : elf.index(b"\0", first)].decode(errors="replace"))
    return frozenset(names)


@cache
def _of_c() -> frozenset[str]:
    """The C library's functions that our headers call, or that compilers insert."""
    text = _preprocessed()
    return (
        _COPIES
        | frozenset(re.findall(r"\b__builtin_(\w+)", text))
        | frozenset(re.findall(r'__asm__\("(\w+)"\)', text))
    )


def run(
    command: list[str], folder: Path, limit_s: float = time_limits.COMPILE_FOR_EMULATOR_S
) -> subprocess.CompletedProcess[str]:
    """Run a compiler in its own folder, which receives everything it writes.

    Raises:
        subprocess.TimeoutExpired: it exceeded the limit.
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
        timeout=limit_s,
        check=False,
    )
