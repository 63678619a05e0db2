"""`Compiler` on NVRTC: compiles one side to a cubin and reads its resources, in a worker, without a GPU.

Time and memory limits are the worker's (`kcurate.judge.workers.inside.isolation`). Not covered: what code may
be compiled at all (`kcurate.judge.checks.static`).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path

from kcurate.backends.base import MAX_RAW_LOG_CHARS, SYSTEM_LIBRARIES, Compiled, CompileFailure, EntryPoint
from kcurate.backends.cuda import cubin, nvrtc, ptxas
from kcurate.backends.cuda.host_headers import BEFORE_SIDES
from kcurate.backends.cuda.unread import unread
from kcurate.errors import MissingDependencyError
from kcurate.ptx.outside import outside

# A minimal kernel, whose compilation loads everything that is loaded only once.
_FIRST = 'extern "C" __global__ void first(int *x) { x[threadIdx.x] = 1; }'


class CudaCompiler:
    """NVRTC for one GPU's architecture, including chip-specific features: `sm_90` compiles for `sm_90a`."""

    def __init__(self, arch: str | None = None) -> None:
        self.arch = nvrtc.target(arch or nvrtc.DEFAULT_ARCH)

    def folders(self) -> tuple[Path, ...]:
        """All folders that compiling reads after a first kernel: headers, NVRTC's libraries, Triton's ptxas.

        Raises:
            MissingDependencyError: NVRTC is not installed.
        """
        self.compile(_FIRST, [EntryPoint("first")])
        folders = [*nvrtc.header_folders(), *nvrtc.library_folders()]
        with contextlib.suppress(MissingDependencyError):
            folders += [ptxas.tool(int(self.arch.removeprefix("sm_").rstrip("af"))).parent, *SYSTEM_LIBRARIES]
        return tuple(folders)

    def compile(
        self,
        code: str,
        entry_points: Sequence[EntryPoint],
        symbols: Sequence[str] = (),
        *,
        sanitize: bool = False,
        examine: bool = False,
    ) -> Compiled | CompileFailure:
        """Compile one side; `sanitize` keeps line numbers for compute-sanitizer's reports.

        `examine`: find what kernels never read.

        Raises:
            MissingDependencyError: NVRTC is not installed.
        """
        expressions = [entry.expression for entry in entry_points] + [f"&{symbol}" for symbol in symbols]
        options = ["--ptxas-options=-v", *(["--generate-line-info"] if sanitize else [])]
        text = BEFORE_SIDES + code
        compiled = nvrtc.compile_cubin(text, name_expressions=expressions, arch=self.arch, options=options)
        if compiled.cubin is None:
            return CompileFailure("error", compiled.log[:MAX_RAW_LOG_CHARS])
        lowered = {expression.removeprefix("&"): symbol for expression, symbol in compiled.lowered.items()}
        return Compiled(
            backend="cuda",
            binary=compiled.cubin,
            sha256=hashlib.sha256(compiled.cubin).hexdigest(),
            lowered=lowered,
            resources=cubin.read_kernels(compiled.cubin, compiled.log),
            compiler=f"{nvrtc.nvrtc_version()} {self.arch}",
            unread=unread(compiled.ptx) if examine else {},
            outside=outside(compiled.ptx),
        )
