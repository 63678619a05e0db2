"""Compiles the host code of an answer into a Python extension, in a sandbox that can read only headers.

PyTorch's headers take half a minute, so they are precompiled once per run. Not covered: the text that is
compiled (`answers.host_text`).
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcurate.answers import host_text
from kcurate.answers.recording import MULTIPROCESSORS
from kcurate.backends.cuda import nvrtc
from kcurate.backends.emulator import toolchain
from kcurate.core import lock_files
from kcurate.errors import MissingDependencyError
from kcurate.judge.workers.inside import isolation
from kcurate.judge.workers.nursery import run_limited

NATIVE = Path(__file__).with_name("native")
PRECOMPILE_S, COMPILE_S = 600.0, 180.0
MAX_LIBRARY_BYTES = isolation.MAX_MEMORY_FILE_BYTES  # more cannot be loaded
OPTIONS = ("-std=c++20", "-O0", "-fPIC", "-w", "-fmax-errors=3", "-fdiagnostics-color=never")
_NAME = re.compile(r"[A-Za-z_]\w{0,199}")
# The compiler runs after its process gave up everything else.
BOOT = (
    "import json, os, resource, sys; sys.path[:] = json.loads(sys.argv[1]); from pathlib import Path; "
    "from kcurate.judge.workers.inside import isolation; folders, command = json.loads(sys.argv[2]); "
    "limit_s = int(sys.argv[3]); resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s)); "
    "isolation.enter('compile', 'emulator', readable=[*map(Path, folders), Path.cwd()]); "
    "os.execv(command[0], command)"
)


@dataclass(frozen=True)
class Built:
    """An extension (None: there is none). `why`: the first error of the build as published."""

    library: bytes | None
    why: str = ""


class Builder:
    """Builds extensions against one precompiled header, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._includes = tuple(_include_folders())
        libraries = (Path(place).parent / "lib" for place in self._includes)
        lib = next(place for place in libraries if (place / "libtorch.so").is_file())
        self._lib = str(lib)
        self._libraries = [f"-L{lib}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
        self._words = [
            *toolchain.find().command,
            *OPTIONS,
            f"-DKCURATE_MULTIPROCESSORS={MULTIPROCESSORS}",
            *(f"-isystem{place}" for place in self._includes),
        ]

    def _precompile(self) -> None:
        """Compile the header once, for the first answer."""
        handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle), lock_files.held(handle, fcntl.LOCK_EX):
            header = self.folder / "answer.h"
            compiled = header.with_suffix(".h.gch")
            if compiled.is_file():
                return
            header.write_bytes((NATIVE / header.name).read_bytes())
            command = [*self._words, "-x", "c++-header", header.name, "-o", compiled.name]
            log = self._run(command, self.folder, PRECOMPILE_S)
            if not compiled.is_file():
                what = f"PyTorch's headers do not compile here: {log[-1000:]}"
                raise MissingDependencyError(what, hint="is the compiler new enough for this PyTorch?")

    def build(self, request: Mapping[str, Any]) -> Built:
        """The extension that `load_inline` would build.

        If `cpp_sources` do not declare the functions of the CUDA source, so that the bindings fail to
        compile, all sources become one unit, and the answer is marked as `repaired`.
        """
        if not _NAME.fullmatch(str(request["name"])):
            return Built(None, "the name of its extension is none of a module")
        self._precompile()
        published = self._linked(request, _units(request))
        if published.library is not None or not request["functions"]:
            return published
        whole = "\n".join([*request["cpp"], *request["cuda"]])
        if "PYBIND11_MODULE" not in whole:
            whole += _bindings(request)
        repaired = self._linked(request, {"answer.cpp": host_text.host_text(whole.encode())})
        if repaired.library is None:
            return Built(None, f"{published.why}; with the bindings joined: {repaired.why}")
        return Built(repaired.library, published.why)

    def _linked(self, request: Mapping[str, Any], texts: Mapping[str, bytes]) -> Built:
        with tempfile.TemporaryDirectory(prefix="kcurate-answer-") as name:
            place = Path(name)
            words = [*self._words, f"-I{self.folder}", f"-DTORCH_EXTENSION_NAME={request['name']}"]
            for file, text in texts.items():  # an error in the first, the bindings, saves the others
                (place / file).write_bytes(b'#include "answer.h"\n' + text)
                log = self._run([*words, "-c", file, "-o", f"{file}.o"], place, COMPILE_S)
                if not (place / f"{file}.o").is_file():
                    return Built(None, _first_error(log))
            objects = [f"{file}.o" for file in texts]
            log = self._run(
                [*words, "-shared", *objects, *self._libraries, "-o", "answer.so"], place, COMPILE_S
            )
            library = place / "answer.so"
            if library.is_file() and library.stat().st_size > MAX_LIBRARY_BYTES:
                return Built(None, f"its library has over {MAX_LIBRARY_BYTES >> 20} MiB")
            if library.is_file() and not library.is_symlink():
                return Built(library.read_bytes())
            return Built(None, _first_error(log))

    def _run(self, command: Sequence[str], place: Path, limit_s: float) -> str:
        folders = [
            str(folder)
            for folder in (
                *self._includes,
                self._lib,
                self.folder,
                "/usr",
                "/lib",
                "/lib64",
                "/etc/ld.so.cache",
            )
        ]
        words = [json.dumps(sys.path), json.dumps([folders, list(command)]), str(math.ceil(limit_s))]
        boot = [sys.executable, "-c", BOOT, *words]
        done = run_limited(boot, str(place), limit_s)
        return "it takes too long" if done is None else done.stdout


def _first_error(log: str) -> str:
    lines = log.splitlines()
    return next((line for line in lines if "error" in line), lines[-1] if lines else "no message")[:300]


def _units(request: Mapping[str, Any]) -> dict[str, bytes]:
    """The translation units of `load_inline`: C++ with the bindings, and CUDA."""
    main = "\n".join(request["cpp"])
    if request["functions"] is not None:
        main += _bindings(request)
    units = {"main.cpp": main, "cuda.cpp": "\n".join(request["cuda"])}
    return {name: host_text.host_text(text.encode()) for name, text in units.items() if text.strip()}


def _bindings(request: Mapping[str, Any]) -> str:
    bindings = "".join(f'm.def("{name}", &{name});' for name in request["functions"])
    return f"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ {bindings} }}\n"


def _include_folders() -> Iterable[str]:
    try:
        from torch.utils.cpp_extension import include_paths
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "reading answers needs torch", hint="pip install 'kcurate[train]'"
        ) from error
    yield from include_paths()
    yield sysconfig.get_paths()["include"]
    folders, _ = nvrtc.host_folders(("cuda_runtime.h", "cuda_fp16.h", "crt/host_defines.h"))
    yield from map(str, folders)
