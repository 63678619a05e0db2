"""C types as problem dtypes: built-in types and enumerations, vectors as a last axis, structs of one type.

Not covered: structs of several types, classes, half-precision vectors wider than two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.cuda_source import declarations
from kcurate.errors import ProblemError
from kcurate.problem.dtypes import UNIT_ROUNDOFF, numpy_dtype
from kcurate.problem.expressions import evaluate

DTYPES: Mapping[str, str] = {
    "bool": "bool", "char": "int8", "signed char": "int8", "unsigned char": "uint8", "uchar": "uint8",
    "short": "int16", "unsigned short": "uint16", "ushort": "uint16", "int": "int32", "unsigned": "uint32",
    "unsigned int": "uint32", "uint": "uint32", "long": "int64", "unsigned long": "uint64", "ulong": "uint64",
    "long int": "int64", "unsigned long int": "uint64", "long long": "int64", "long long int": "int64",
    "unsigned long long": "uint64", "unsigned long long int": "uint64", "size_t": "uint64",
    "float": "float32", "double": "float64", "half": "float16", "__half": "float16",
    "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16", "int8_t": "int8", "uint8_t": "uint8",
    "int16_t": "int16", "uint16_t": "uint16",
    "int32_t": "int32", "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64", "ssize_t": "int64",
    "ptrdiff_t": "int64", "short int": "int16", "unsigned short int": "uint16", "u_char": "uint8",
    "longlong": "int64", "ulonglong": "uint64",
    "__nv_fp8_e4m3": "float8_e4m3", "__nv_fp8_e5m2": "float8_e5m2", "__nv_fp8_storage_t": "uint8",
}  # fmt: skip
_PACKED: Mapping[str, tuple[str, int]] = {
    "half2": ("float16", 2), "__half2": ("float16", 2),
    "__nv_bfloat162": ("bfloat16", 2), "nv_bfloat162": ("bfloat16", 2),
    "__nv_fp8x2_e4m3": ("float8_e4m3", 2), "__nv_fp8x4_e4m3": ("float8_e4m3", 4),
    "__nv_fp8x2_e5m2": ("float8_e5m2", 2), "__nv_fp8x4_e5m2": ("float8_e5m2", 4),
}  # fmt: skip
FLOATS = frozenset(UNIT_ROUNDOFF)
_VECTOR = re.compile(r"(u?(?:char|short|int|long|longlong)|float|double)([1-4])")
_DROPPED = re.compile(
    r"\b(?:const|volatile|static|extern|__constant__|struct|typename|__restrict(?:__)?|restrict|std\s*::)\s*|[&]"
)
MAX_DEPTH = 8


@dataclass(frozen=True)
class Element:
    """What a pointer points to: `lanes` values of `dtype`."""

    dtype: str
    lanes: int = 1

    @property
    def size_bytes(self) -> int:
        """Bytes of one element; three-lane vectors are packed, as in C."""
        return numpy_dtype(self.dtype).itemsize * self.lanes


def element(type_text: str, names: Mapping[str, str], code: str = "") -> Element | None:
    """The element behind a type, ignoring stars; `names` are typedefs, macros and template arguments.

    `code` is where structs are looked up. None: no problem dtype fits.
    """
    text = type_text
    for _ in range(MAX_DEPTH):
        if text.endswith("]"):
            base, *sizes = re.split(r"\s*\[", text.replace("]", ""))
            each, extents = element(base, names, code), [_extent(size, names) for size in sizes]
            lanes = math.prod(extent or 0 for extent in extents)
            return Element(each.dtype, each.lanes * lanes) if each is not None and lanes else None
        text = " ".join(_DROPPED.sub(" ", text.replace("*", " ")).split())
        words = text.split()
        if "signed" in words and text != "signed char":
            text = " ".join(word for word in words if word != "signed") or "int"
        if "unsigned" in words and words[0] != "unsigned":
            text = " ".join(["unsigned", *(word for word in words if word != "unsigned")])
        if text in DTYPES:
            return Element(DTYPES[text])
        vector = _VECTOR.fullmatch(text)
        if vector:
            return Element(DTYPES[vector[1]], int(vector[2]))
        if text in _PACKED:
            return Element(*_PACKED[text])
        if text not in names or names[text] == text:
            break
        text = names[text]
    if not re.fullmatch(r"\w+", text):
        return None
    behind = declarations.enumerations(code).get(text) if "enum" in code else None
    return element(behind, names) if behind is not None else _struct(text, names, code)


def _struct(name: str, names: Mapping[str, str], code: str) -> Element | None:
    """A struct whose members, structs inside included, all have one builtin type: that many lanes."""
    others = {own: meant for own, meant in names.items() if own != name}
    lanes, dtype = 0, None
    for member in members(name, names, code) or ():
        found = (
            element(member.type, others, code) if "*" not in member.type and "&" not in member.type else None
        )
        if found is None or dtype not in (None, found.dtype):
            return None
        dtype, lanes = found.dtype, lanes + found.lanes * member.count
    return Element(dtype, lanes) if dtype else None


def _extent(text: str, names: Mapping[str, str]) -> int | None:
    """An array's extent over constants; None: not known."""
    for _ in range(MAX_DEPTH):
        text = re.sub(r"[A-Za-z_]\w*", lambda found: f"({names.get(found[0], found[0])})", text)
    try:
        return evaluate(text, {})
    except ProblemError:
        return None


@dataclass(frozen=True)
class Member:
    """A data member of a struct: an array where `count` is above one. Pointers have stars in their type."""

    type: str
    name: str
    count: int = 1


def members(name: str, names: Mapping[str, str], code: str) -> tuple[Member, ...] | None:
    """The data members of the struct that a type names, in order; None: not found, or of unknown extents."""
    bare = " ".join(_DROPPED.sub(" ", name).split())
    inside = declarations.members(code).get(names.get(bare, bare))
    found = []
    for type_text, own, sizes in inside or ():
        count = 1
        for size in sizes:
            known = _extent(size, names)
            if known is None:
                return None
            count *= known
        found.append(Member(type_text, own, count))
    return tuple(found) if inside is not None else None
