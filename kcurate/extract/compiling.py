"""Compile-checks the standalone file of one kernel and writes its folder.

Runs in worker processes: a compiler that crashes or hangs on hostile input takes down only its own task.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from kcurate.backends.cuda import cubin, nvrtc
from kcurate.core import codec, compile_cache, own_files, store
from kcurate.core.notes import Note
from kcurate.cuda_source import features, techniques
from kcurate.cuda_source.standalone.trimming import (
    build_macros,
    error_lines,
    trimmed,
    without_failing_instances,
)
from kcurate.cuda_source.standalone.unit import BUILD_MACRO, REACHED
from kcurate.errors import BackendError, InputError, KcurateError, MissingDependencyError
from kcurate.records import CompiledKernel, Kernel

# Tried in this order: the record names the first that a kernel compiles for. Machine code is the same for
# both (every third built-in pair, NVRTC 13.0).
ARCHS = ("sm_90", nvrtc.DEFAULT_ARCH)
# At most so often, a file is compiled again after removing a declaration that fails.
MAX_TRIMS = 8
# A longer file contains a whole library, and the kernel mostly needs the declarations that fail.
MAX_TRIMMED_BYTES = 1 << 16
_UNDEFINED = re.compile(r'identifier "([A-Z][A-Z0-9_]*)" is undefined')


@dataclass(frozen=True)
class KernelTask:
    """A kernel to finish: its folder, its record before compilation, its code.

    `compiler` is the compiler's name and version (None: do not compile). `definitions` are values that Python
    code gives to macros in the CUDA code. `reached`: as in `KernelSource`.
    """

    folder: Path
    kernel: Kernel
    code: bytes
    compiler: str | None
    definitions: Mapping[str, str] = field(default_factory=dict)
    reached: bytes | None = None


def find_compiler(wanted: bool | None, note: Note) -> str | None:
    """The name and version of NVRTC; None if not `wanted`, or if `wanted` is None and it is not installed.

    Raises:
        MissingDependencyError: `wanted` is True and NVRTC is not installed.
    """
    if wanted is False:
        return None
    try:
        return nvrtc.nvrtc_version()
    except MissingDependencyError as error:
        if wanted:
            raise
        note(f"kernels are not compile-checked: {error}")
        return None


def compile_kernel(code: bytes, kernel: Kernel) -> CompiledKernel:
    """Compile a standalone file with NVRTC and look up its kernel in the cubin.

    The record's `arch` is the one that the kernel needs: `sm_90`, or `sm_90a` if it compiles for no other. A
    template without any instantiation produces no code; that counts as a failure. Results are cached by the
    code and the compiler, since trees hold many copies.
    """
    key = compile_cache.key(nvrtc.identity(), ARCHS, code, kernel.name, kernel.instantiations)
    path = compile_cache.folder("nvrtc") / f"kernel-{key}.json"
    if (cached := compile_cache.find(path)) is not None:
        return codec.from_data(CompiledKernel, codec.parse(cached, where=str(path)))
    generic, arch_specific = ARCHS
    try:
        compiled = _compile_for(generic, code, kernel)
        compiled = compiled if compiled.ok else _compile_for(arch_specific, code, kernel)
    except BackendError as error:  # NVRTC itself failed on this input
        return CompiledKernel(False, arch_specific, nvrtc.nvrtc_version(), log=str(error))
    compile_cache.keep(path, json.dumps(codec.to_data(compiled)).encode())
    return compiled


def _compile_for(arch: str, code: bytes, kernel: Kernel) -> CompiledKernel:
    compiler = nvrtc.nvrtc_version()
    expressions = kernel.instantiations
    result = nvrtc.compile_cubin(
        code, name_expressions=expressions, arch=arch, options=("--ptxas-options=-v",)
    )
    if result.cubin is None:
        return CompiledKernel(False, arch, compiler, log=result.log)
    usage = {resources.kernel: resources for resources in cubin.read_kernels(result.cubin, result.log)}
    symbol = next(iter(result.lowered.values()), None) or _symbol_of(kernel.name, usage)
    if symbol not in usage:
        log = f"{kernel.name} is not in the cubin, which holds: {', '.join(usage) or 'nothing'}"
        return CompiledKernel(False, arch, compiler, log=log)
    resources = usage[symbol]
    return CompiledKernel(
        ok=True,
        arch=arch,
        compiler=compiler,
        symbol=symbol,
        registers=resources.registers,
        shared_bytes=resources.shared_bytes,
        local_bytes=resources.local_bytes,
        spill_bytes=resources.spill_bytes,
        code_sha256=cubin.code_sha256(result.cubin, symbol),
    )


def _symbol_of(name: str, symbols: Iterable[str]) -> str | None:
    """The symbol of a non-template kernel: unmangled (`extern "C"`) or mangled."""
    plain = name.rpartition("::")[2]
    mangled = f"{len(plain)}{plain}"
    return next((symbol for symbol in sorted(symbols) if symbol == plain or mangled in symbol), None)


def finish_kernel(task: KernelTask) -> tuple[Kernel, bytes]:
    """Compile a kernel unless an earlier run did, write its folder, and return its record and code.

    If the file does not compile, declarations that it does not need are removed from the code.
    """
    known = _known(task)
    result = known if known is not None else _newly_compiled(task)
    if known is None and result is not None and not result.ok and task.compiler is not None:
        with contextlib.suppress(BackendError):  # NVRTC itself failed on a shorter file
            task, result = _trimmed(task, result)
            if not result.ok and task.reached is not None:
                task, result = _of_reached(task, task.reached, result)
    return write_kernel(task, result), task.code


def _of_reached(task: KernelTask, code: bytes, failed: CompiledKernel) -> tuple[KernelTask, CompiledKernel]:
    """The task with the declarations alone that a compiler reaches, if it then compiles."""
    shims = tuple(sorted({*task.kernel.shims, REACHED}))
    kernel = replace(task.kernel, shims=shims, features=features(code), techniques=techniques(code))
    narrow = replace(task, kernel=kernel, code=code)
    result = compile_kernel(code, kernel)
    if not result.ok:
        narrow, result = _trimmed(narrow, result)
    return (narrow, result) if result.ok else (task, failed)


def _trimmed(task: KernelTask, failed: CompiledKernel) -> tuple[KernelTask, CompiledKernel]:
    """The task without unneeded declarations and with the build's macros if that compiles, else unchanged."""
    code, kernel, result = task.code, task.kernel, failed
    includes = b"\n".join(re.findall(rb"^\s*#\s*include\b[^\n]*", code, re.MULTILINE))

    def in_headers(names: Set[bytes]) -> Set[bytes]:
        sorted_names = sorted(names)
        probe = [b"using ::%b;" % name for name in sorted_names]
        source = b"\n".join([includes, b"#line 1", *probe])
        log = nvrtc.compile_cubin(source, arch=ARCHS[0]).log if probe else ""
        unknown = error_lines(log)
        return {name for line, name in enumerate(sorted_names, 1) if line not in unknown}

    for _ in range(MAX_TRIMS if len(code) <= MAX_TRIMMED_BYTES else 0):
        log, instantiations = result.log or "", kernel.instantiations
        macros = build_macros(code, {*_UNDEFINED.findall(log)}, task.definitions)
        repair = BUILD_MACRO if macros else "needless"
        shorter = macros + code if macros else trimmed(code, error_lines(log), kernel.name, in_headers)
        if shorter == code:
            repair = "failing-instance"
            shorter, instantiations = without_failing_instances(code, log, instantiations)
        if shorter == code:
            break
        shims = tuple(sorted({*kernel.shims, repair}))
        code, kernel = shorter, replace(kernel, shims=shims, instantiations=instantiations)
        result = _compile_for(ARCHS[0], code, kernel)
        if result.ok:
            code = re.sub(rb"(?:[ \t]*\n){3,}", b"\n\n", code).lstrip(b"\n")
            kernel = replace(kernel, features=features(code), techniques=techniques(code))
            return replace(task, kernel=kernel, code=code), compile_kernel(code, kernel)
    return task, failed


def compiled(task: KernelTask) -> CompiledKernel | None:
    """The result of compiling a task, of this or an earlier run; None: there is no compiler."""
    known = _known(task)
    return known if known is not None else _newly_compiled(task)


def _newly_compiled(task: KernelTask) -> CompiledKernel | None:
    if task.compiler is None or task.kernel.language != "cuda":
        return None
    return compile_kernel(task.code, task.kernel)


def finish_kernels(tasks: Sequence[KernelTask]) -> list[tuple[Kernel, bytes]]:
    """Finish several kernels in turn; returns the record and the code of each."""
    return [finish_kernel(task) for task in tasks]


def write_kernel(task: KernelTask, compiled: CompiledKernel | None) -> Kernel:
    """Write the code, then `kernel.json`; up-to-date files are left alone.

    An old record is deleted before its code changes, so a record never sits next to code it does not match.
    """
    kernel = replace(task.kernel, compiled=compiled)
    path = task.folder / "kernel.json"
    is_new = not store.is_folder(task.folder)
    if is_new or not _same_code(task):
        if not is_new:
            store.remove(path)
        store.write_bytes(_code_path(task), task.code, durable=False)
    if is_new or _read(path) != kernel:
        store.write_json(path, kernel, durable=False)
    return kernel


def _code_path(task: KernelTask) -> Path:
    return task.folder / f"kernel{store.SUFFIXES[task.kernel.language]}"


def _same_code(task: KernelTask) -> bool:
    try:
        return own_files.read(_code_path(task)) == task.code
    except InputError:
        return False


def _read(path: Path) -> Kernel | None:
    """An earlier record; None if there is none or it is unusable."""
    if not store.exists(path):
        return None
    try:
        return store.read_json(path, Kernel)
    except KcurateError:
        return None


def _known(task: KernelTask) -> CompiledKernel | None:
    """The result of an earlier run on exactly the same code."""
    if not store.is_folder(task.folder):
        return None
    earlier = _read(task.folder / "kernel.json")
    if earlier is None or earlier.compiled is None or not _same_code(task):
        return None
    same = (earlier.instantiations, earlier.name) == (task.kernel.instantiations, task.kernel.name)
    final = earlier.compiled.ok or earlier.compiled.arch == ARCHS[-1]
    return earlier.compiled if same and final and task.compiler in (None, earlier.compiled.compiler) else None
