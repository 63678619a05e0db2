"""Compiles extracted kernels for the stand-in for libcudart, so that later kernels get real inputs.

Each library launches one kernel as the emulator does, in the program's own process. Not covered: running them
(`native/cudart.cpp`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.emulator.compiler import EmulatorCompiler
from kcurate.cuda_source import parse
from kcurate.errors import ProblemError
from kcurate.judge.checks.lexer import compiler_text
from kcurate.records import Kernel

INDEX = "kernels.tsv"


def prepare(kernels: Iterable[tuple[Kernel, str]], folder: Path) -> tuple[Path, list[str]]:
    """Compile every kernel and template instance; returns the index of the libraries, and a message per
    failure.

    A line of the index has, separated by tabs, the demangled name without parameters, the library, and the
    device variables.

    Raises:
        MissingDependencyError: there is no C++ compiler.
    """
    compiler = EmulatorCompiler()
    lines: list[str] = []
    failed: list[str] = []
    for kernel, code in kernels:
        variables = list(_variables(code))
        try:
            text = compiler_text(code)
        except ProblemError as error:
            failed.append(f"{kernel.name}: {error.what}")
            continue
        for entry in _entries(kernel):
            compiled = compiler.compile(text, [entry], variables)
            if not isinstance(compiled, Compiled):
                failed.append(f"{entry.expression}: {_first_line(compiled.log)}")
                continue
            path = folder / f"{compiled.sha256[:32]}.so"
            path.write_bytes(compiled.binary)
            lines.append("\t".join([_as_demangled(entry.expression), str(path), ",".join(variables)]))
    index = folder / INDEX
    index.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return index, failed


def _entries(kernel: Kernel) -> Iterator[EntryPoint]:
    if not kernel.instantiations:
        yield EntryPoint(kernel.name)
    for instance in kernel.instantiations:
        name, _, inside = instance.partition("<")
        yield EntryPoint(name.strip(), (inside.rstrip().removesuffix(">"),))


def _variables(code: str) -> Iterator[str]:
    """Device variables at file scope, by name."""
    for item in parse(code.encode()).items:
        if item.kind not in ("function", "type") and item.device and not item.template and not item.space:
            yield from (name.decode() for name in item.names)


def _as_demangled(name: str) -> str:
    """A name with the spacing of the C++ runtime's demangler: `f<float, 4>`."""
    return re.sub(r"\s*,\s*", ", ", re.sub(r"\s+", " ", name)).replace("< ", "<").replace(" >", ">").strip()


def _first_line(log: str) -> str:
    return next((line for line in log.splitlines() if "error" in line), log.strip().splitlines()[0])[:160]
