"""What a compiled side may not contain: state, the device heap, sleeping, clocks, absurd sections.

Reads a cubin as a file; macros and templates cannot hide anything here. An emulator's binary has none of
this to read. Facts on the machine code (sm_70 to sm_90: 16 bytes an instruction, the low 12 bits its opcode,
bits 72 to 79 the special register): seen in cubins of CUDA 13.0 and pinned by the tests. Not covered: the
code's text (`kcurate.judge.checks.source`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcurate.backends.base import Compiled
from kcurate.backends.cuda import cubin
from kcurate.judge.checks.findings import Finding

# A module's sections: long unrolled kernels have some hundred KiB of code, constant tables up to some MiB.
MAX_SECTION_BYTES = 16 << 20
_FORBIDDEN_SYMBOLS = frozenset(
    {"malloc", "free", "vprintf", "__assertfail", "cudaLaunchDeviceV2", "cudaGetParameterBufferV2"}
)
# Tables that the compiler's own maths library brings along (argument reduction of sin and cos, coefficients):
# read alone. Code that declares such a name itself is refused by `kcurate.judge.checks.global_state`.
_LIBRARY_TABLES = frozenset({"__cudart_i2opi_f", "__cudart_i2opi_d", "__cudart_sin_cos_coeffs"})
# What CUDA's header of the atomics leaves behind where a kernel uses atomicCAS: a `static const bool`.
_HEADER_CONSTANT = re.compile(r"_ZN26__nv_atomic_triv_cp_helperI\w+E5__valE")
_INSTRUCTION_BYTES = 16
_READ_SPECIAL = frozenset({0x805, 0x919, 0x9C3})
_CLOCKS = frozenset({0x50, 0x51, 0x52, 0x53})
_NANOSLEEP = 0x5D


def state(compiled: Compiled, allowed: frozenset[str]) -> Iterator[Finding]:
    """`__device__` variables that code can write, but for `allowed` names (constants; what a plan writes).

    The library's own tag objects do not count; a side that defines some in its namespaces is caught by its
    text (`static_checks.state`).
    """
    for variable in cubin.variables(compiled.binary):
        if variable.name in _LIBRARY_TABLES:
            continue
        if variable.size_bytes == 1 and _HEADER_CONSTANT.fullmatch(variable.name):
            continue
        harmless = variable.constant or variable.library or variable.name.startswith("$")
        if not harmless and not _known(variable.name, allowed):
            yield Finding("state", f"the variable {variable.name} outlives a launch")


def _known(mangled: str, allowed: frozenset[str]) -> bool:
    """Whether a mangled name is an allowed one, or has one as its last length-prefixed part."""
    if mangled in allowed:
        return True
    return any(re.search(rf"(?<!\d){len(name)}{re.escape(name)}(?![a-z_])", mangled) for name in allowed)


def sections(compiled: Compiled) -> Iterator[Finding]:
    """Sections of absurd size."""
    for name, size in cubin.section_sizes(compiled.binary).items():
        if size > MAX_SECTION_BYTES and not name.startswith(".debug"):
            yield Finding("sections", f"{name} has {size} bytes")


def runtime_calls(compiled: Compiled) -> Iterator[Finding]:
    """Calls into the device runtime: heap, output, nested launches."""
    for name in sorted(cubin.undefined_symbols(compiled.binary) & _FORBIDDEN_SYMBOLS):
        yield Finding("runtime_calls", name)


def instructions(compiled: Compiled, *, may_sleep: bool) -> Iterator[Finding]:
    """Clock reads and sleeps in the machine code; `may_sleep` for headers whose own waiting loops sleep."""
    for kernel, code in cubin.machine_code(compiled.binary).items():
        for at in range(0, len(code) - _INSTRUCTION_BYTES + 1, _INSTRUCTION_BYTES):
            low = int.from_bytes(code[at : at + 2], "little") & 0xFFF
            if low in _READ_SPECIAL and code[at + 9] in _CLOCKS and not may_sleep:
                yield Finding("instructions", f"{kernel} reads a clock")
            elif low & 0xFF == _NANOSLEEP and not may_sleep:
                yield Finding("instructions", f"{kernel} sleeps")
