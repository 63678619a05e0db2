"""What a binary may not contain: writable state, calls, sleeps, clocks, huge frames; which are alike.

Macros and templates cannot hide anything here. The encoding (sm_70 to sm_120: 16 bytes per instruction, the
low 12 bits the opcode, bits 72 to 79 the special register) was read off cubins of CUDA 13.0; the tests pin
it. Not covered: source text (`kcurate.judge.checks.source`), the emulator's binaries, which are not
checked and never count as the same; what a cubin holds (`kcurate.backends.cuda.cubin`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.cuda import cubin
from kcurate.backends.cuda.helpers import LOCAL_FRAMES
from kcurate.judge.checks.findings import Finding
from kcurate.problem.bind_once import bind_once
from kcurate.problem.ops import LaunchOp, Op, WhileOp
from kcurate.records import SIDES, Candidate
from kcurate.records.pair import SideName


def same(candidate: Candidate, compiled: Mapping[SideName, Compiled]) -> bool:
    """Whether both sides launch the same machine code with the same grids and arguments at every size."""
    problem = candidate.problem
    assert problem is not None, "a candidate without a problem is not compiled"
    if any(compiled[side].backend != "cuda" for side in SIDES):
        return False
    return all(
        _work(candidate, "slow", compiled["slow"], sizes) == _work(candidate, "fast", compiled["fast"], sizes)
        for sizes in problem.sizes.all
    )


def _work(candidate: Candidate, side: SideName, compiled: Compiled, sizes: Mapping[str, int]) -> Any:
    """A side's operations with kernel names replaced by code hashes, its extra buffers and variables."""
    assert candidate.problem is not None
    bound = bind_once(candidate.problem, getattr(candidate, side), sizes)
    hashes = {
        entry: cubin.code_sha256(compiled.binary, compiled.lowered[EntryPoint(*entry).expression])
        for entry in bound.entry_points
    }
    extra = {name: buffer for name, buffer in bound.buffers.items() if buffer.extra}
    data = sorted((v.size_bytes, v.initial or b"") for v in cubin.variables(compiled.binary))
    return [_hashed(op, hashes) for op in bound.ops], extra, data


def _hashed(op: Op, hashes: Mapping[tuple[str, tuple[str, ...]], str | None]) -> Any:
    if isinstance(op, LaunchOp):
        code = hashes[(op.kernel, op.template)]
        return replace(op, kernel=code or op.kernel, template=())
    if isinstance(op, WhileOp):
        return op.flag, op.limit, [_hashed(inner, hashes) for inner in op.body]
    return op


# Long unrolled kernels have some hundred KiB of code, constant tables up to some MiB.
MAX_SECTION_BYTES = 16 << 20
# Local memory per thread that is overwritten between timed runs.
MAX_LOCAL_BYTES = max(LOCAL_FRAMES)
_FORBIDDEN_SYMBOLS = frozenset(
    {"malloc", "free", "vprintf", "__assertfail", "cudaLaunchDeviceV2", "cudaGetParameterBufferV2"}
)
# Read-only tables of the compiler's maths library (argument reduction and coefficients of sin and cos).
# `kcurate.judge.checks.global_state` refuses source that declares such a name itself.
_LIBRARY_TABLES = frozenset({"__cudart_i2opi_f", "__cudart_i2opi_d", "__cudart_sin_cos_coeffs"})
# A `static const bool` that CUDA's atomics header leaves in a binary that uses atomicCAS.
_HEADER_CONSTANT = re.compile(r"_ZN26__nv_atomic_triv_cp_helperI\w+E5__valE")
# Tables of virtual functions. They are as writable as any variable, and as all are set anew before each run.
_VIRTUAL_TABLE = re.compile(r"_ZTV\w+")
_INSTRUCTION_BYTES = 16
# The last reads a clock into a uniform register, from sm_120 on.
_READ_SPECIAL = frozenset({0x805, 0x919, 0x9C3, 0x8CB})
_REFUSED_REGISTERS = {
    **dict.fromkeys((0x50, 0x51, 0x52, 0x53), "a clock"),
    **dict.fromkeys(range(0x64, 0x74), "a profiler's counter"),
    0x02: "how many warps its SM has", 0x03: "a warp's place on its SM", 0x43: "the number of its SM",
}  # fmt: skip
_NANOSLEEP = 0x5D
_LOCAL_ACCESS = frozenset({0x387, 0x983, 0x987})


def state(compiled: Compiled, allowed: frozenset[str]) -> Iterator[Finding]:
    """Writable `__device__` variables other than the `allowed` names (constants, and what a plan writes).

    The CUDA C++ library's tag objects are ignored; `checks.static.state` catches a side that defines a
    variable in the library's namespaces.
    """
    for variable in cubin.variables(compiled.binary):
        if variable.name in _LIBRARY_TABLES or _VIRTUAL_TABLE.fullmatch(variable.name):
            continue
        if variable.size_bytes == 1 and _HEADER_CONSTANT.fullmatch(variable.name):
            continue
        harmless = variable.constant or variable.library or variable.name.startswith("$")
        if not harmless and not _known(variable.name, allowed):
            yield Finding("state", f"the variable {variable.name} keeps state between launches")


def _known(mangled: str, allowed: frozenset[str]) -> bool:
    """Whether a mangled name is an allowed one or contains one as a length-prefixed part."""
    if mangled in allowed:
        return True
    return any(re.search(rf"(?<!\d){len(name)}{re.escape(name)}(?![a-z_])", mangled) for name in allowed)


def sections(compiled: Compiled) -> Iterator[Finding]:
    """Sections above `MAX_SECTION_BYTES`."""
    for name, size in cubin.section_sizes(compiled.binary).items():
        if size > MAX_SECTION_BYTES and not name.startswith(".debug"):
            yield Finding("sections", f"{name} has {size} bytes")


def frames(compiled: Compiled) -> Iterator[Finding]:
    """Kernels with more than `MAX_LOCAL_BYTES` of local memory per thread, which could keep state there."""
    for kernel in cubin.read_kernels(compiled.binary):
        if (kernel.local_bytes or 0) > MAX_LOCAL_BYTES:
            what = f"{kernel.kernel} has {kernel.local_bytes} bytes of local memory per thread"
            yield Finding("frames", f"{what}, more than {MAX_LOCAL_BYTES}")


def runtime_calls(compiled: Compiled) -> Iterator[Finding]:
    """Calls into the device runtime: heap, printf, dynamic parallelism."""
    for name in sorted(cubin.undefined_symbols(compiled.binary) & _FORBIDDEN_SYMBOLS):
        yield Finding("runtime_calls", name)


def instructions(compiled: Compiled) -> Iterator[Finding]:
    """Reads of clocks and of the SM, sleeps, waits with a time limit, local memory without a frame."""
    for fact in compiled.outside:
        yield Finding("instructions", f"the PTX {fact}")
    frameless = {kernel.kernel for kernel in cubin.read_kernels(compiled.binary) if kernel.local_bytes == 0}
    for kernel, code in cubin.machine_code(compiled.binary).items():
        for at in range(0, len(code) - _INSTRUCTION_BYTES + 1, _INSTRUCTION_BYTES):
            low = int.from_bytes(code[at : at + 2], "little") & 0xFFF
            if low in _READ_SPECIAL and code[at + 9] in _REFUSED_REGISTERS:
                yield Finding("instructions", f"{kernel} reads {_REFUSED_REGISTERS[code[at + 9]]}")
            elif low & 0xFF == _NANOSLEEP:
                yield Finding("instructions", f"{kernel} sleeps")
            elif low in _LOCAL_ACCESS and kernel in frameless:
                yield Finding("instructions", f"{kernel} uses local memory and has none")
