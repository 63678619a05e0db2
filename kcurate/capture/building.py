"""Compiles the recorders (`native/`) on first use, with this machine's C++ compiler, into the user's cache.

The key in the cache covers the sources, the compiler, its options and the CUDA headers. No CUDA library is
linked. The stand-in for libcudart exports every function of the runtime API: functions that it does not
implement return `cudaErrorNotSupported`. Not covered: what the libraries do (`FORMAT.md`), running a program
with one (`running`).
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import platformdirs

from kcurate.backends.cuda import nvrtc
from kcurate.backends.emulator import toolchain
from kcurate.core import compile_cache, time_limits
from kcurate.errors import BackendError, MissingDependencyError

NATIVE = Path(__file__).with_name("native")
# The program may have another C++ library, which must not mix with ours: ours is linked statically and not
# exported (`exports.map`).
OPTIONS = (
    "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-static-libstdc++", "-static-libgcc",
    "-Wl,--version-script=exports.map", "-pthread",
)  # fmt: skip
# Declarations in `cuda_runtime_api.h`, implementations in the source of the stand-in, and names that programs
# call instead when they are built with a default stream for each thread.
_DECLARED = re.compile(r"CUDARTAPI\s+(cuda\w+)\s*\(")
_IMPLEMENTED = re.compile(r"\b(_*cuda\w+)\s*\(|\bSUCCEEDS\((\w+)")
_PER_THREAD = re.compile(r"#define\s+(\w+)\s+__CUDART_API_(PTDS|PTSZ)\(\1\)")
_VERSION = re.compile(r"#define\s+CUDART_VERSION\s+(\d+)")
# A compiled launch also calls this under another name, which the header does not list.
LAUNCH = ("__cudaLaunchKernel", "PTSZ")


def injection() -> Path:
    """The library for `CUDA_INJECTION64_PATH`.

    Raises:
        MissingDependencyError: no C++ compiler or CUDA headers, or the cache cannot be written.
        BackendError: it does not compile.
    """
    folders, libraries = nvrtc.host_folders(nvrtc.CUPTI_HEADERS)
    cupti = [path for folder in libraries for path in sorted(folder.glob("libcupti.so*"))]
    options = [f'-DKCURATE_LIBCUPTI="{cupti[0].resolve()}"'] if cupti else []
    texts = {"exports.map": "{ global: InitializeInjection; local: *; };\n"}
    return _built("injection.cpp", "libkcurate-injection.so", folders, [*options, "-ldl"], texts)


def stand_in() -> Path:
    """The folder of the stand-in for libcudart, for `LD_LIBRARY_PATH`.

    Raises:
        MissingDependencyError: no C++ compiler or CUDA headers, or the cache cannot be written.
        BackendError: it does not compile, or the headers do not give the runtime's version.
    """
    folders, _ = nvrtc.host_folders(("cuda_runtime_api.h", "crt/host_defines.h"))
    header = next(path for folder in folders if (path := folder / "cuda_runtime_api.h").is_file()).read_text()
    version = _VERSION.search(header)
    if version is None:
        raise BackendError("cuda_runtime_api.h does not tell the runtime's version", where=str(folders[0]))
    name = f"libcudart.so.{int(version[1]) // 1000}"
    texts = {
        "stubs.inc": _stubs(header, (NATIVE / "cudart.cpp").read_text()),
        # The version of symbols is the library's name, as in the real one.
        "exports.map": f"{name} {{ global: cuda*; __cuda*; local: *; }};\n",
    }
    return _built("cudart.cpp", name, folders, [f"-Wl,-soname,{name}", "-ldl"], texts).parent


def _stubs(header: str, source: str) -> str:
    """The text of `stubs.inc` for a stand-in with this source; `header`: `cuda_runtime_api.h`."""
    implemented = {name or other for name, other in _IMPLEMENTED.findall(source)}
    lines = [f"MISSING({name})" for name in sorted(set(_DECLARED.findall(header)) - implemented)]
    for name, kind in sorted({*_PER_THREAD.findall(header), LAUNCH}):
        macro = "ALIAS" if name in implemented else "MISSING_AS"
        lines.append(f"{macro}({name}, {name}_{kind.lower()})")
    return "\n".join(lines) + "\n"


def _built(
    source: str, name: str, folders: Sequence[Path], options: Sequence[str], texts: Mapping[str, str]
) -> Path:
    """The compiled library; `texts`: further files for the compiler's folder, by name."""
    tools = toolchain.find()
    words = [*OPTIONS, "-I.", *(f"-I{folder}" for folder in folders), str(NATIVE / source), *options]
    files = [path.read_bytes() for path in (NATIVE / source, NATIVE / "recording.h")]
    headers = [path.read_bytes() for folder in folders if (path := folder / "cuda.h").is_file()]
    digest = hashlib.sha256(repr((tools, words, sorted(texts.items()), files, headers)).encode())
    library = Path(platformdirs.user_cache_dir("kcurate")) / "capture" / digest.hexdigest()[:40] / name
    if not library.is_file():
        _compile([*tools.command, *words], library, texts)
    return library


def _compile(command: list[str], library: Path, texts: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="kcurate-capture-") as temporary:
        folder = Path(temporary)
        for name, text in texts.items():
            (folder / name).write_text(text)
        try:
            done = toolchain.run([*command, "-o", library.name], folder, time_limits.COMPILE_RECORDER_S)
        except subprocess.TimeoutExpired as error:
            raise BackendError(f"compiling took more than {error.timeout:g} s", where=library.name) from error
        if done.returncode:
            log = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip())
            raise BackendError(f"the recorder does not compile: {log[:1000]}", where=library.name)
        if not compile_cache.keep(library, (folder / library.name).read_bytes()):
            hint = "set XDG_CACHE_HOME to another folder"
            raise MissingDependencyError("cannot write the cache", where=str(library.parent), hint=hint)
