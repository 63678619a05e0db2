"""Compiles CUDA C++ to a cubin through NVRTC, without toolkit or GPU; makes no decisions, sets no limits.

CUDA headers come from the include folders of the installed `nvidia-cuda-*` wheels, or of a CUDA toolkit if a
wheel is missing; those of the C and C++ libraries come from `host_headers`. The source is named after a file
in a folder that cannot exist, so quoted includes find nothing on this machine. NVRTC still follows absolute
include paths (measured with 13.0.88), so untrusted code is checked for them first and compiled in a worker
(`kcurate.judge`). Nothing is imported before the first call.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from typing import Any

from kcurate.backends.cuda.host_headers import HEADERS, INTERNAL
from kcurate.core import compile_cache
from kcurate.errors import BackendError, MissingDependencyError

# The target on a machine without a GPU: Hopper with its chip-specific instructions (wgmma, setmaxnreg).
DEFAULT_ARCH = "sm_90a"
# From this compute capability on there are architecture-specific targets (NVRTC user guide, "Supported
# Compile Options").
_FIRST_SPECIFIC = 90
SOURCE_NAME = "kernel.cu"
_SOURCE_PATH = f"/dev/null/{SOURCE_NAME}"
TOOLKIT = "/usr/local/cuda"
# Distributions whose wheels carry device headers, and a header that each must contain.
_HEADER_PACKAGES = {
    "nvidia-cuda-runtime": "cuda_fp16.h",
    "nvidia-cuda-crt": "crt/mma.h",
    "nvidia-cuda-cccl": "cuda/std/type_traits",
}
# The same for headers that host code includes.
_HOST_PACKAGES = {
    "nvidia-cuda-runtime": "cuda.h",
    "nvidia-cuda-crt": "crt/host_defines.h",
    "nvidia-cuda-cupti": "cupti.h",
}
# The headers that a library with CUPTI includes, directly or through CUPTI.
CUPTI_HEADERS = ("cuda.h", "cuda_runtime_api.h", "cupti.h", "crt/host_defines.h")


@dataclass(frozen=True)
class NvrtcResult:
    """NVRTC's result: `cubin` is None if it failed. `lowered` maps name expressions to symbols.

    `ptx` is the text that the cubin was assembled from.
    """

    cubin: bytes | None
    log: str
    lowered: Mapping[str, str] = field(default_factory=dict)
    ptx: str = ""


@cache
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        hint = "pip install 'kcurate[gpu]'; no GPU is needed to compile"
        raise MissingDependencyError("NVRTC is not installed", where="cuda", hint=hint) from error
    return nvrtc


def _call(function: Any, *args: Any) -> Any:
    """Call an NVRTC function; returns its result(s) without the status.

    Raises:
        BackendError: the status is not success.
    """
    status, *results = function(*args)
    if int(status) != 0:
        raise BackendError(f"{function.__name__}: {status.name}", where="nvrtc")
    return results[0] if len(results) == 1 else tuple(results)


@cache
def nvrtc_version() -> str:
    """The compiler's name and version, such as `nvrtc 13.0`.

    Raises:
        MissingDependencyError: NVRTC is not installed.
    """
    major, minor = _call(_nvrtc().nvrtcVersion)
    return f"nvrtc {major}.{minor}"


@cache
def identity() -> str:
    """A hash of what all binaries depend on: the compiler and the headers.

    Raises:
        MissingDependencyError: NVRTC is not installed.
    """
    return compile_cache.key(nvrtc_version(), *header_versions(), HEADERS, INTERNAL)


@cache
def header_versions() -> tuple[object, object]:
    """What tells one set of CUDA headers from another: packages with versions, and folders with dates."""
    versions = []
    for package in ("nvidia-cuda-nvrtc", *_HEADER_PACKAGES):
        with contextlib.suppress(PackageNotFoundError):
            versions.append((package, version(package)))
    return versions, [(str(place), place.stat().st_mtime_ns) for place in include_folders()]


def target(arch: str) -> str:
    """The architecture-specific target of a device's `arch`, if there is one: `sm_90a` for `sm_90`."""
    number = arch.removeprefix("sm_")
    return f"{arch}a" if number.isdecimal() and int(number) >= _FIRST_SPECIFIC else arch


@cache
def include_folders() -> tuple[Path, ...]:
    """The folders with the CUDA device headers: the wheels', then a toolkit's if a wheel is missing."""
    wheels = [_wheel_folder(package, header) for package, header in _HEADER_PACKAGES.items()]
    toolkit = toolkit_folders() if None in wheels else ()
    return tuple(dict.fromkeys(folder.resolve() for folder in (*wheels, *toolkit) if folder is not None))


@cache
def header_folders() -> tuple[Path, ...]:
    """The include folders, and the folders of files that are symbolic links in them.

    The result is cached: a nursery computes it before it forks workers.
    """
    linked: dict[Path, None] = dict.fromkeys(include_folders())
    unread = [str(folder) for folder in linked]
    while unread:
        with os.scandir(unread.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    linked[Path(entry.path).resolve().parent] = None
                elif entry.is_dir():
                    unread.append(entry.path)
    return tuple(linked)


def library_folders() -> tuple[Path, ...]:
    """The folders from which NVRTC was loaded, where it later finds its second library."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = (line.split(maxsplit=5)[5] for line in lines if "libnvrtc" in line)
    return tuple(dict.fromkeys(Path(name).parent for name in paths))


def _wheel_folder(package: str, header: str) -> Path | None:
    """The include folder of a wheel; None if the wheel or its header is missing."""
    try:
        wheel_files = files(package) or []
    except PackageNotFoundError:
        return None
    for entry in wheel_files:
        if entry.as_posix().endswith(f"/{header}"):
            return Path(str(entry.locate())).resolve().parents[len(Path(header).parts) - 1]
    return None


def toolkit_folders(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """The include folders of a CUDA toolkit in `CUDA_HOME`, `CUDA_PATH` or the default place; may be empty.

    From CUDA 13 on the C++ library is in a separate folder (`include/cccl`).
    """
    roots = [environment.get("CUDA_HOME"), environment.get("CUDA_PATH"), TOOLKIT]
    for root in map(Path, filter(None, roots)):
        for folder in (root / "include", *sorted(root.glob("targets/*/include"))):
            if (folder / _HEADER_PACKAGES["nvidia-cuda-runtime"]).is_file():
                library = folder / "cccl"
                return (folder, library) if library.is_dir() else (folder,)
    return ()


def host_folders(
    headers: Sequence[str], environment: Mapping[str, str] = os.environ
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Include folders that hold these headers of the host's CUDA libraries, and folders of the libraries.

    A toolkit comes first, as it fits the machine's driver; then the wheels, then both together.

    Raises:
        MissingDependencyError: a header was not found.
    """
    toolkit = list(toolkit_folders(environment)[:1])
    roots = [parent for folder in toolkit for parent in folder.parents[:3]]
    toolkit += filter(Path.is_dir, [root / "extras" / "CUPTI" / "include" for root in roots])
    wheels = [_wheel_folder(package, header) for package, header in _HOST_PACKAGES.items()]
    wheel_folders = [folder for folder in wheels if folder is not None]
    for group in (toolkit, wheel_folders, [*toolkit, *wheel_folders]):
        if all(any((folder / header).is_file() for folder in group) for header in headers):
            folders = tuple(dict.fromkeys(group))
            beside = [folder.parent / name for folder in folders for name in ("lib64", "lib")]
            return folders, tuple(folder for folder in beside if folder.is_dir())
    lacking = [header for header in headers if not any((folder / header).is_file() for folder in group)]
    hint = "pip install 'kcurate[gpu]', or set CUDA_HOME to a CUDA toolkit that has them"
    raise MissingDependencyError(f"no {' and '.join(lacking)} for compiling against CUDA", hint=hint)


def compile_cubin(
    code: bytes | str,
    *,
    name_expressions: Sequence[str] = (),
    arch: str = DEFAULT_ARCH,
    options: Sequence[str] = (),
) -> NvrtcResult:
    """Compile device code to a cubin for exactly `arch` (such as `sm_90a`).

    `name_expressions` are kernels and variables to keep and look up (`scale<float, 4>`, `&table`). The log
    contains no path on this machine. `assert` does nothing, as with NDEBUG.

    Raises:
        MissingDependencyError: NVRTC is not installed.
        BackendError: NVRTC itself failed (out of memory, internal error).
    """
    nvrtc = _nvrtc()
    source = code.encode() if isinstance(code, str) else code
    if b"\0" in source:
        return NvrtcResult(None, f"{SOURCE_NAME}: the source contains a zero byte")
    headers = {**HEADERS, **INTERNAL}
    texts = [text.encode() for text in headers.values()]
    names = [name.encode() for name in headers]
    program = _call(nvrtc.nvrtcCreateProgram, source, _SOURCE_PATH.encode(), len(texts), texts, names)
    try:
        for expression in name_expressions:
            _call(nvrtc.nvrtcAddNameExpression, program, expression.encode())
        flags = [f"--gpu-architecture={arch}", "--std=c++17", "-DNDEBUG", *options]
        # Only where it is used: the library's headers leave more variables in a binary with it.
        flags += ["--device-int128"] if b"__int128" in source else []
        flags += [f"--include-path={folder}" for folder in include_folders()]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        text = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        log = without_paths(text.rstrip(b"\0 ").decode("utf-8", "replace"))
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            if status != nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION and not log:
                raise BackendError(f"nvrtcCompileProgram: {status.name}", where="nvrtc")
            return NvrtcResult(None, log or status.name)
        cubin = _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        lowered_name = partial(_call, nvrtc.nvrtcGetLoweredName, program)
        lowered = {each: lowered_name(each.encode()).decode() for each in name_expressions}
        ptx = _read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0")
        return NvrtcResult(cubin, log, lowered, ptx.decode("utf-8", "replace"))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(size: Any, copy: Any, program: Any) -> bytes:
    """The bytes that NVRTC writes into a buffer of the size it requests.

    The bindings write into a `bytes` object in place. The buffer always has more than one byte, because
    one-byte objects are shared by the whole process: overwriting the space character would corrupt later
    strings.
    """
    size_bytes = _call(size, program)
    data = b" " * (size_bytes + 2)
    _call(copy, program, data)
    return bytes(bytearray(data)[:size_bytes])


def without_paths(log: str) -> str:
    """A compiler log with absolute paths reduced to the file name."""
    for folder in include_folders():
        log = log.replace(f"{folder}/", "")
    return re.sub(r"(?<![\w.])/(?:[^\s/:()\"']+/)+", "", log)
