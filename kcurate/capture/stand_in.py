"""The stand-in for libcudart: built once from `native/cudart.cpp` and CUDA's headers, into the user's cache.

What it does not implement answers `cudaErrorNotSupported`; the list of such functions comes from the headers.
Not covered: what it does (`native/cudart.cpp`), the recorder for GPUs (`building`).
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from kcurate.backends.cuda.nvrtc import include_folders
from kcurate.backends.emulator import toolchain
from kcurate.errors import BackendError, MissingDependencyError

NATIVE = Path(__file__).with_name("native")
SOURCE = NATIVE / "cudart.cpp"
HEADERS = ("cuda_runtime_api.h", "cuda_profiler_api.h")
# Not in the headers' list of functions with another name, though a compiled launch calls it so.
LAUNCH = ("__cudaLaunchKernel", "PTSZ")
_DECLARED = re.compile(r"CUDARTAPI\s+(cuda\w+)\s*\(")
_IMPLEMENTED = re.compile(r"\b(_*cuda\w+)\s*\(|\bSUCCEEDS\((\w+)")
_PER_THREAD = re.compile(r"#define\s+(\w+)\s+__CUDART_API_(PTDS|PTSZ)\(\1\)")
_VERSION = re.compile(r"#define\s+CUDART_VERSION\s+(\d+)")
OPTIONS = ("-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-w")


def folder() -> Path:
    """The folder that holds `libcudart.so.<major>`, and `libcudart.so` to link against.

    Raises:
        MissingDependencyError: no C++ compiler, or no CUDA headers. BackendError: it does not compile.
    """
    folders = include_folders()
    header = "".join(_read(folders, name) for name in HEADERS)
    version = _VERSION.search(header)
    if version is None:
        raise MissingDependencyError(
            "the headers of the CUDA runtime are not installed", hint="pip install 'kcurate[gpu]'"
        )
    library = f"libcudart.so.{int(version[1]) // 1000}"
    tools = toolchain.find()
    sources = [path.read_bytes() for path in sorted(NATIVE.iterdir()) if path.is_file()]
    key = hashlib.sha256(repr((tools, OPTIONS, sources, header)).encode()).hexdigest()[:32]
    kept = Path(platformdirs.user_cache_dir("kcurate")) / "capture" / key
    if not (kept / library).exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="building-", dir=kept.parent) as name:
            made = Path(name) / "lib"
            made.mkdir()
            _build(made, library, stubs(header, SOURCE.read_text(encoding="utf-8")), folders, tools.command)
            (made / "libcudart.so").symlink_to(library)
            if not kept.exists():
                made.rename(kept)
    return kept


def _read(folders: Sequence[Path], name: str) -> str:
    path = next((one / name for one in folders if (one / name).is_file()), None)
    return path.read_text(encoding="utf-8", errors="replace") if path else ""


def _build(made: Path, library: str, missing: str, folders: Sequence[Path], command: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="kcurate-stand-in-") as name:
        work = Path(name)
        (work / "stubs.inc").write_text(missing, encoding="utf-8")
        # Symbols carry the library's name as their version, as in the real one.
        (work / "exports").write_text(
            f"{library} {{ global: cuda*; __cuda*; local: *; }};\n", encoding="utf-8"
        )
        includes = [f"-I{one}" for one in (work, NATIVE, *folders)]
        link = [f"-Wl,-soname,{library}", f"-Wl,--version-script={work / 'exports'}"]
        done = subprocess.run(
            [*command, *OPTIONS, *includes, *link, str(SOURCE), "-o", str(made / library), "-ldl"],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise BackendError(
            f"the stand-in for libcudart does not compile: {done.stderr.strip()[-1000:]}",
            hint="please report it",
        )


def stubs(header: str, source: str) -> str:
    """The text of `stubs.inc`: what the headers declare and the source does not define."""
    own = {one or other for one, other in _IMPLEMENTED.findall(source)}
    lines = [f"MISSING({name})" for name in sorted(set(_DECLARED.findall(header)) - own)]
    for name, kind in sorted({*_PER_THREAD.findall(header), LAUNCH}):
        macro = "ALIAS" if name in own else "MISSING_AS"
        lines.append(f"{macro}({name}, {name}_{kind.lower()})")
    return "\n".join(lines) + "\n"
