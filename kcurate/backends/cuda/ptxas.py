"""Assembles Triton's PTX to a cubin with Triton's bundled ptxas; in a compile worker.

The PTX is as untrusted as the candidate's source. Not covered: making it
(`kcurate.backends.triton.compiler`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from kcurate.backends.base import MAX_RAW_LOG_CHARS, Compiled, CompileFailure
from kcurate.backends.cuda import cubin
from kcurate.backends.cuda.unread import unread
from kcurate.core import time_limits
from kcurate.errors import MissingDependencyError
from kcurate.ptx.outside import outside

# From this capability on Triton uses a second ptxas.
FIRST_BLACKWELL = 100
_TARGET = re.compile(r"^\.target (sm_(\d+)[af]?)", re.MULTILINE)
_VERSION = re.compile(r"release [\d.]+, V([\d.]+)")


@cache
def tool(capability: int) -> Path:
    """The assembler for an architecture.

    Raises:
        MissingDependencyError: Triton, or its assembler, is not installed.
    """
    spec = importlib.util.find_spec("triton")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    for name in ("ptxas-blackwell", "ptxas") if capability >= FIRST_BLACKWELL else ("ptxas",):
        for folder in folders:
            if (path := Path(folder) / "backends" / "nvidia" / "bin" / name).is_file():
                return path
    raise MissingDependencyError("Triton's ptxas is not installed", hint="pip install 'kcurate[triton]'")


@cache
def version(path: Path) -> str:
    """The assembler's version."""
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    match = _VERSION.search(done.stdout)
    return f"ptxas {match[1]}" if match else "ptxas"


def assemble(ptx: str, *, examine: bool = False) -> Compiled | CompileFailure:
    """The cubin for the target named in the PTX; without kernel names, which only Triton knows (`completed`).

    `examine`: also find what each kernel never reads (`Compiled.unread`).

    Raises:
        MissingDependencyError: there is no assembler.
    """
    target = _TARGET.search(ptx)
    if target is None:
        return CompileFailure("error", "PTX without a target")
    assembler = tool(int(target[2]))
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        source, output = Path(folder) / "side.ptx", Path(folder) / "side.cubin"
        source.write_text(ptx)
        command = [str(assembler), "-v", f"--gpu-name={target[1]}", str(source), "-o", str(output)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=time_limits.COMPILE_SIDE_S
            )
        except subprocess.TimeoutExpired:
            return CompileFailure("timeout", "ptxas exceeded the time limit")
        log = done.stderr.replace(f"{folder}/", "")
        if done.returncode or not output.is_file():
            return CompileFailure("error", log[:MAX_RAW_LOG_CHARS] or f"ptxas ended with {done.returncode}")
        binary = output.read_bytes()
    return Compiled(
        backend="cuda",
        binary=binary,
        sha256=hashlib.sha256(binary).hexdigest(),
        lowered={},
        resources=cubin.read_kernels(binary, log),
        compiler=version(assembler),
        unread=unread(ptx) if examine else {},
        outside=outside(ptx),
    )


def completed(assembled: Compiled, from_triton: Compiled) -> Compiled:
    """An assembled cubin, completed with Triton's names, shared memory and version."""
    dynamic = from_triton.dynamic_shared
    resources = tuple(
        replace(kernel, shared_bytes=(kernel.shared_bytes or 0) + dynamic.get(kernel.kernel, 0))
        for kernel in assembled.resources
    )
    compiler, lowered = f"{from_triton.compiler} {assembled.compiler}", from_triton.lowered
    return replace(assembled, lowered=lowered, resources=resources, compiler=compiler, dynamic_shared=dynamic)
