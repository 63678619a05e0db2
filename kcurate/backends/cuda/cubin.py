"""Reads a cubin's ELF sections; needs neither CUDA tools nor a GPU.

Layout facts (sm_90, CUDA 13.0), checked against `ptxas -v` in the tests: `.nv.info` has pairs of symbol index
and value for registers (0x2f) and stack frame (0x11), `.nv.info.<kernel>` a record per parameter (0x17);
`.nv.shared.<kernel>` includes 1024 bytes reserved by the system; `.text.<kernel>` is machine code; variables
are symbols in `.nv.global`, `.nv.global.init` and `.nv.constant3`. Spills are not in the file: `spill_bytes`
comes from the compiler's `-v` log.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kcurate.errors import BackendError, MissingDependencyError
from kcurate.records import Resources

REGISTERS, FRAME_BYTES, PARAMETER = 0x2F, 0x11, 0x17
# Shared memory reserved by the system in every block on sm_90 (`ptxas -v` does not count it).
RESERVED_SHARED_BYTES = 1024
# The default of CU_LIMIT_STACK_SIZE, which nothing here raises.
DEFAULT_STACK_BYTES = 1024
# Functions of the compiler's maths library, which do not recurse.
_LIBRARY_CALLS = frozenset({"__internal_trig_reduction_slowpathd", "__internal_accurate_pow"})
_TEXT, _SHARED = ".text.", ".nv.shared."
_CONSTANT = ".nv.constant3"
_VARIABLE_SECTIONS = (".nv.global", ".nv.global.init", _CONSTANT)
# In the log of `ptxas -v`: the name of a kernel, then its spills.
_COMPILING = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
# Headers of the CUDA C++ libraries define a thousand tags and constants of at most 8 bytes (CUDA 13.0).
_LIBRARY = frozenset({"cuda", "cooperative_groups", "__cccl_internal", "cub", "thrust"})
MAX_TAG_BYTES = 8


@dataclass(frozen=True)
class Variable:
    """A `__device__` or `__constant__` variable: its size, and its initial bytes (None: zeros)."""

    name: str
    size_bytes: int
    section: str
    initial: bytes | None = None

    @property
    def constant(self) -> bool:
        """Whether kernels can only read it."""
        return self.section == _CONSTANT

    @property
    def library(self) -> bool:
        """Whether it is a tag or constant of the CUDA C++ libraries, which nothing writes."""
        return self.size_bytes <= MAX_TAG_BYTES and _namespace(self.name) in _LIBRARY


def _namespace(mangled: str) -> str:
    """The outermost namespace of a mangled name, skipping the compiler's per-file one; empty if none."""
    tail = mangled.removeprefix("_ZN") if mangled.startswith("_ZN") else ""
    while match := re.match(r"\d+", tail):
        end = match.end() + int(match[0])
        name, tail = tail[match.end() : end], tail[end:]
        if not name.startswith("_INTERNAL_"):
            return name
    return ""


def _open(cubin: bytes) -> Any:
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        hint = "pip install 'kcurate[gpu]'"
        raise MissingDependencyError("pyelftools is not installed", where="cubin", hint=hint) from error
    try:
        return ELFFile(io.BytesIO(cubin))
    except ELFError as error:
        raise BackendError(f"not a cubin: {error}", where="cubin") from error


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The (attribute, payload) entries in an `.nv.info` section; format 4 has a payload."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == 4:
            yield attribute, data[at : at + value]
            at += value


def _per_symbol(elf: Any, attribute: int) -> Mapping[str, int]:
    info, table = elf.get_section_by_name(".nv.info"), elf.get_section_by_name(".symtab")
    if info is None or table is None:
        return {}
    entries = (struct.unpack("<II", data) for kind, data in _attributes(info.data()) if kind == attribute)
    return {table.get_symbol(index).name: value for index, value in entries}


def read_kernels(cubin: bytes, log: str = "") -> tuple[Resources, ...]:
    """Every kernel in the cubin with its registers, shared, local and constant bytes.

    The local bytes of a kernel that calls functions are at least the default stack: its frame includes
    callees, but not recursion, whose depth is unknown. `log` is the compiler's log for the same cubin, made
    with `--ptxas-options=-v`; without it, `spill_bytes` is None.

    Raises:
        BackendError: not an ELF file. MissingDependencyError: pyelftools is missing.
    """
    elf = _open(cubin)
    registers, frames, spills = _per_symbol(elf, REGISTERS), _per_symbol(elf, FRAME_BYTES), _spills(log)
    sizes = {section.name: section["sh_size"] for section in elf.iter_sections()}
    names = sorted(name.removeprefix(_TEXT) for name in sizes if name.startswith(_TEXT))
    variables = sizes.get(_CONSTANT, 0)
    return tuple(
        Resources(
            kernel=name,
            registers=registers.get(name),
            shared_bytes=max(0, sizes.get(_SHARED + name, 0) - RESERVED_SHARED_BYTES),
            local_bytes=_local_bytes(frames, name),
            constant_bytes=variables,
            spill_bytes=spills.get(name),
        )
        for name in names
        if f".nv.info.{name}" in sizes
    )


def _local_bytes(frames: Mapping[str, int], kernel: str) -> int:
    """The local memory that a thread may use: the kernel's frame, or the stack if it calls functions."""
    prefix = f"${kernel}$"
    called = {name.removeprefix(prefix) for name in frames if name.startswith(prefix)}
    return max(frames.get(kernel, 0), DEFAULT_STACK_BYTES if called - _LIBRARY_CALLS else 0)


def parameters(cubin: bytes, symbol: str) -> tuple[tuple[int, int], ...]:
    """(offset, size) in bytes of every parameter of a kernel, in order."""
    section = _open(cubin).get_section_by_name(f".nv.info.{symbol}")
    by_ordinal = {}
    for kind, data in _attributes(section.data()) if section is not None else ():
        if kind == PARAMETER:
            _, ordinal, offset, flags = struct.unpack("<IHHI", data)
            by_ordinal[ordinal] = (offset, flags >> 18)
    return tuple(by_ordinal[ordinal] for ordinal in sorted(by_ordinal))


def _spills(log: str) -> Mapping[str, int]:
    """Bytes of spill stores plus loads, by kernel, from a `-v` log."""
    spill_bytes: dict[str, int] = {}
    kernel = ""
    for line in log.splitlines():
        if match := _COMPILING.search(line):
            kernel = match[1]
        elif kernel and (match := _SPILLS.search(line)):
            spill_bytes[kernel] = int(match[1]) + int(match[2])
            kernel = ""
    return spill_bytes


def code_sha256(cubin: bytes, symbol: str) -> str | None:
    """SHA-256 of a kernel's machine code; None if the cubin has no such kernel."""
    section = _open(cubin).get_section_by_name(_TEXT + symbol)
    return hashlib.sha256(section.data()).hexdigest() if section is not None else None


def section_sizes(cubin: bytes) -> Mapping[str, int]:
    """Bytes of every section, by name."""
    return {section.name: section["sh_size"] for section in _open(cubin).iter_sections()}


def machine_code(cubin: bytes) -> Mapping[str, bytes]:
    """The machine code of every function, by symbol."""
    return {
        section.name.removeprefix(_TEXT): section.data()
        for section in _open(cubin).iter_sections()
        if section.name.startswith(_TEXT)
    }


def undefined_symbols(cubin: bytes) -> frozenset[str]:
    """Symbols that the driver must supply when it loads the cubin, such as `vprintf` or `malloc`."""
    table = _open(cubin).get_section_by_name(".symtab")
    symbols = table.iter_symbols() if table is not None else ()
    return frozenset(symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name)


def variables(cubin: bytes) -> tuple[Variable, ...]:
    """The module's `__device__` and `__constant__` variables (as mangled), sorted by name."""
    elf = _open(cubin)
    table = elf.get_section_by_name(".symtab")
    variables = []
    for symbol in table.iter_symbols() if table is not None else ():
        index = symbol["st_shndx"]
        if symbol["st_info"]["type"] != "STT_OBJECT" or not isinstance(index, int):
            continue
        section = elf.get_section(index)
        if section.name in _VARIABLE_SECTIONS:
            variables.append(_variable(symbol, section))
    return tuple(sorted(variables, key=lambda variable: variable.name))


def _variable(symbol: Any, section: Any) -> Variable:
    start, size = symbol["st_value"], symbol["st_size"]
    initial = None if section["sh_type"] == "SHT_NOBITS" else section.data()[start : start + size]
    return Variable(symbol.name, size, section.name, initial)
