"""Compiles the recorders (`native/`) on first use, with this machine's C++ compiler, into the user's cache.

The key is the sources, the compiler, its options and the CUDA headers. Nothing of CUDA is linked.
Not covered: what the libraries do (`FORMAT.md`), running a program with one (`running`).
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import platformdirs

from kcurate.backends.cuda import nvrtc
from kcurate.backends.emulator import toolchain
from kcurate.capture import stubs
from kcurate.core import time_limits
from kcurate.errors import BackendError, MissingDependencyError

NATIVE = Path(__file__).with_name("native")
# The program may have a C++ library of its own, which must not meet ours: ours is linked in and not exported
# (`exports.map`).
OPTIONS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-static-libstdc++",
    "-static-libgcc",
    "-Wl,--version-script=exports.map",
    "-pthread",
)


def injection() -> Path:
    """The library for `CUDA_INJECTION64_PATH`.

    Raises:
        MissingDependencyError: no C++ compiler or CUDA headers, or the cache cannot be written.
        BackendError: it does not compile.
    """
    folders, libraries = nvrtc.host_folders(nvrtc.CUPTI_HEADERS)
    cupti = [path for folder in libraries for path in sorted(folder.glob("libcupti.so*"))]
    options = [f'-DKCURATE_LIBCUPTI="{cupti[0].resolve()}"'] if cupti else []
    made = {"exports.map": "{ global: InitializeInjection; local: *; };\n"}
    return _built("injection.cpp", "libkcurate-injection.so", folders, [*options, "-ldl"], made)


def stand_in() -> Path:
    """The folder of the stand-in for libcudart, for `LD_LIBRARY_PATH`.

    Raises:
        MissingDependencyError: no C++ compiler or CUDA headers, or the cache cannot be written.
        BackendError: it does not compile, or the headers do not tell the runtime's version.
    """
    folders, _ = nvrtc.host_folders(("cuda_runtime_api.h", "crt/host_defines.h"))
    header = next(path for folder in folders if (path := folder / "cuda_runtime_api.h").is_file()).read_text()
    number = stubs.major(header)
    if number is None:
        raise BackendError("cuda_runtime_api.h does not tell the runtime's version", where=str(folders[0]))
    name = f"libcudart.so.{number}"
    made = {
        "stubs.inc": stubs.stubs(header, (NATIVE / "cudart.cpp").read_text()),
        "exports.map": stubs.version_script(number),
    }
    return _built("cudart.cpp", name, folders, [f"-Wl,-soname,{name}", "-ldl"], made).parent


def _built(
    source: str,
    name: str,
    folders: Sequence[Path],
    options: Sequence[str],
    made: Mapping[str, str],
) -> Path:
    """The compiled library; `made`: further files in the compiler's folder, by name."""
    tools = toolchain.find()
    words = [*OPTIONS, "-I.", *(f"-I{folder}" for folder in folders), str(NATIVE / source), *options]
    files = [path.read_bytes() for path in (NATIVE / source, NATIVE / "recording.h")]
    headers = [path.read_bytes() for folder in folders if (path := folder / "cuda.h").is_file()]
    digest = hashlib.sha256(repr((tools, words, sorted(made.items()), files, headers)).encode())
    kept = Path(platformdirs.user_cache_dir("kcurate")) / "capture" / digest.hexdigest()[:40] / name
    if not kept.is_file():
        _compile([*tools.command, *words], kept, made)
    return kept


def _compile(command: list[str], kept: Path, made: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="kcurate-capture-") as temporary:
        folder = Path(temporary)
        for name, text in made.items():
            (folder / name).write_text(text)
        try:
            done = toolchain.run([*command, "-o", kept.name], folder, time_limits.COMPILE_RECORDER_S)
        except subprocess.TimeoutExpired as error:
            raise BackendError(f"compiling took more than {error.timeout:g} s", where=kept.name) from error
        if done.returncode:
            log = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip())
            raise BackendError(f"the recorder does not compile: {log[:1000]}", where=kept.name)
        if not toolchain.keep(kept, (folder / kept.name).read_bytes()):
            raise MissingDependencyError(
                "cannot write the cache", where=str(kept.parent), hint="set XDG_CACHE_HOME to another folder"
            )
