"""`Compiler` of the emulator: compiles one side to a shared object. Runs in a compile worker.

Results are cached by content. Not covered: what code may be compiled at all (`kcurate.judge.checks.static`),
loading (`device`).
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from kcurate.backends.base import MAX_RAW_LOG_CHARS, SYSTEM_LIBRARIES, Compiled, CompileFailure, EntryPoint
from kcurate.backends.emulator import source, toolchain
from kcurate.core import compile_cache
from kcurate.records import Resources

# The folders of the compiler's executables and of the linker.
TOOLS = (Path("/usr/bin"), Path("/bin"), Path("/usr/libexec"))
_OUT_OF_MEMORY = re.compile(
    r"virtual memory exhausted|out of memory|cannot allocate memory|Killed signal", re.I
)
# The first line of a diagnostic, and its kind.
_DIAGNOSTIC = re.compile(r"\S.*?:\s(?:fatal )?(error|warning|note): ")
# The message of the linkers (GNU's and LLVM's) about a name in the namespace that holds a side's code.
_OWN = re.compile(
    r"undefined (?:reference to [`']|symbol: )(?:\(anonymous namespace\)::)+(.+?)'?$", re.MULTILINE
)
# The last line of clang's output.
_COUNTS = re.compile(r"\d+ (?:warning|error)s?(?: and \d+ errors?)? generated\.")


class EmulatorCompiler:
    """The host's C++ compiler with our headers; create it before the worker is sandboxed.

    Raises:
        MissingDependencyError: there is no compiler. BackendError: our own runtime does not compile.
    """

    def __init__(self) -> None:
        self._tools = toolchain.find()
        self._runtime = toolchain.runtime_object()

    def folders(self) -> tuple[Path, ...]:
        """All folders that compiling reads: our headers and cache, those of the compiler and the linker."""
        folder = Path(self._tools.command[0]).resolve().parent
        prefix = folder.parent if folder.name == "bin" and folder.parent != Path("/usr") else folder
        ours = (source.INCLUDE, toolchain.RUNTIME, toolchain.cache_folder())
        return (*ours, prefix, *TOOLS, *SYSTEM_LIBRARIES)

    def compile(
        self,
        code: str,
        entry_points: Sequence[EntryPoint],
        symbols: Sequence[str] = (),
        *,
        sanitize: bool = False,
        examine: bool = False,
        turns: bool = False,
    ) -> Compiled | CompileFailure:
        """Compile one side; `sanitize` adds array bounds checks and fills local variables with a pattern.

        `examine`: the binary counts what it executes. `turns`: the scheduler may switch threads at every
        memory access.
        """
        try:
            joined = _joined(code, entry_points)
            unit = source.translation_unit(code, entry_points, symbols, joined)
        except source.Refused as refused:
            unsupported = isinstance(refused, source.Unsupported)
            return CompileFailure("unsupported" if unsupported else "error", str(refused))
        options = (*toolchain.DEVICE, *self._tools.machine, *(toolchain.SANITIZE if sanitize else ()))
        options = (*options, *toolchain.counting_options()) if examine else options
        options = (*options, *toolchain.turns_options()) if turns else options
        layout = toolchain.LAYOUT.read_bytes()
        how = (self._tools, options, toolchain.COMMON, toolchain.UNRESOLVED, layout)
        key = compile_cache.key(*how, _headers_sha256(), unit)
        cached = toolchain.cache_folder() / f"side-{key}.so"
        binary = compile_cache.find(cached)
        if binary is None:
            try:
                built = self._build_any(code, entry_points, symbols, joined, options)
            except subprocess.TimeoutExpired:
                return CompileFailure("timeout", "the compiler took too long")
            if isinstance(built, str):
                full = _OUT_OF_MEMORY.search(built) is not None
                missing_headers = [] if full else source.lacking(code)
                if missing_headers:
                    message = f"#include <{missing_headers[0]}>: the emulator has no such header"
                    return CompileFailure("unsupported", f"{source.SOURCE_NAME}: error: {message}")
                return CompileFailure("memory" if full else "error", built)
            binary = built
            compile_cache.keep(cached, binary)
        return compiled_of(binary, entry_points, symbols)

    def _build_any(
        self,
        code: str,
        entry_points: Sequence[EntryPoint],
        symbols: Sequence[str],
        joined: frozenset[str],
        options: Sequence[str],
    ) -> bytes | str:
        """The shared object, or the compiler's message.

        The overloads of `joined` in our headers stay visible beside the code's own, except those that the
        code defines with the same signature.
        """
        while True:
            result = self._build(source.translation_unit(code, entry_points, symbols, joined), options)
            if isinstance(result, bytes) or not joined or _OUT_OF_MEMORY.search(result):
                return result
            same = source.conflicting(result, joined)
            if not same:
                break
            joined -= same
        alone = self._build(source.translation_unit(code, entry_points, symbols), options)
        return alone if isinstance(alone, bytes) else result

    def _build(self, unit: str, options: Sequence[str]) -> bytes | str:
        """The shared object, or the compiler's message."""
        with tempfile.TemporaryDirectory(prefix="kcurate-emulator-") as name:
            folder = Path(name)
            done = toolchain.shared_object(unit, options, self._runtime, folder)
            if done.returncode:
                return _clean(done.stderr or f"the compiler exited with code {done.returncode}", folder)
            lacking = [*dict.fromkeys(_OWN.findall(done.stderr))] or toolchain.foreign(folder, self._runtime)
            if lacking:
                return f"error: declared and used, but not defined: {', '.join(lacking)}"
            return (folder / toolchain.SIDE_LIBRARY).read_bytes()


def compiled_of(binary: bytes, entry_points: Sequence[EntryPoint], symbols: Sequence[str]) -> Compiled:
    """A side's shared object as a `Compiled` for the judge."""
    return Compiled(
        backend="emulator",
        binary=binary,
        sha256=hashlib.sha256(binary).hexdigest(),
        lowered={e.expression: f"entry {i}" for i, e in enumerate(entry_points)}
        | {name: f"symbol {i}" for i, name in enumerate(symbols)},
        resources=tuple(Resources(entry.expression) for entry in entry_points),
        compiler=toolchain.find().version,
    )


@cache
def identity() -> str:
    """A hash of what all sides' binaries depend on: the compiler, our options, headers, runtime and code.

    A sandboxed worker cannot read all of that.
    """
    ours = [Path(module).read_bytes() for module in (__file__, source.__file__, toolchain.__file__)]
    layout = toolchain.LAYOUT.read_bytes()
    return compile_cache.key(toolchain.find(), layout, _headers_sha256(), ours)


def _joined(code: str, entry_points: Sequence[EntryPoint]) -> frozenset[str]:
    """The functions in our headers that the code overloads or redefines, excluding its kernels."""
    names = source.defined(code) - {entry.expression.partition("<")[0].strip() for entry in entry_points}
    return names & toolchain.builtins() if names else frozenset()


@cache
def _headers_sha256() -> str:
    digest = hashlib.sha256()
    for path in sorted(path for folder in (source.INCLUDE, toolchain.RUNTIME) for path in folder.rglob("*")):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _errors(log: str) -> str:
    """A compiler's message without warnings and the lines that belong to them."""
    errors: list[str] = []
    leading: list[str] = []
    is_error = True
    for line in log.splitlines():
        if _COUNTS.fullmatch(line):
            continue
        diagnostic = _DIAGNOSTIC.match(line)
        if diagnostic is None and not line[:1].isspace():
            leading.append(line)
            continue
        if diagnostic is not None and diagnostic[1] != "note":
            is_error = diagnostic[1] == "error"
        errors += [*leading, line] if is_error else []
        leading = []
    return "\n".join([*errors, *leading])


def _clean(log: str, folder: Path) -> str:
    """A message without warnings and host paths."""
    log = _errors(log)
    for place in (f"{folder}/", f"{source.INCLUDE}/"):
        log = log.replace(place, "")
    return re.sub(r"(?<![\w.])/(?:[^\s/:()\"']+/)+", "", log)[:MAX_RAW_LOG_CHARS]
