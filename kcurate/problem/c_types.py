"""C types as problem dtypes: built-in types and enumerations, vectors as a last axis, structs.

A struct whose members all have one type becomes that many lanes of the type; a struct of several types
becomes its bytes. Nested structs and arrays are flattened. Pointers inside a struct are supported only where
the struct is passed by value. Not covered: classes, half-precision vectors wider than two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kcurate.cuda_source.semantics import declarations
from kcurate.cuda_source.text.brackets import split_arguments
from kcurate.errors import ProblemError
from kcurate.problem.dtypes import UNIT_ROUNDOFF, c_layout, numpy_dtype
from kcurate.problem.expressions import evaluate
from kcurate.records import StructField

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
    "ptrdiff_t": "int64", "clock_t": "int64", "short int": "int16", "unsigned short int": "uint16",
    "u_char": "uint8",
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
_TYPE_NAME = re.compile(r"\w+(?:\s*<[^<>()]*>)?")
# Types are looked up by their last names.
_NAMESPACES = re.compile(r"\A(?:::)?(?:\w+::)+")
_DROPPED = re.compile(
    r"\b(?:const|volatile|static|extern|__constant__|__grid_constant__|struct|typename|__restrict(?:__)?|restrict|std\s*::)\s*|[&]"
)
# A plan passes a pointer inside a struct by value as this dtype.
POINTER = "uint64"
# A struct with more numbers is data rather than a kernel argument.
MAX_STRUCT_NUMBERS = 1024
MAX_DEPTH = 8
_LANES = "xyzw"


@dataclass(frozen=True)
class Element:
    """The element that a pointer points to: `lanes` values of `dtype`.

    For a struct of several types `dtype` is `uint8`, and `fields` lists its numbers in order: the path by
    which code reaches each, such as `box.low`, and its dtype. Padding is a field with an empty path.
    """

    dtype: str
    lanes: int = 1
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of one element; three-lane vectors are packed, as in C."""
        return numpy_dtype(self.dtype).itemsize * self.lanes


def element(type_text: str, names: Mapping[str, str], code: str = "") -> Element | None:
    """The element type of a C type, ignoring stars; None: no problem dtype fits.

    `names` maps typedefs, macros and template arguments to their meaning; structs are looked up in `code`.
    """
    text = type_text
    for _ in range(MAX_DEPTH):
        if text.endswith("]"):
            return _array(text, names, code)
        text = _in_order(text)
        if text in DTYPES:
            return Element(DTYPES[text])
        if vector := _VECTOR.fullmatch(text):
            return Element(DTYPES[vector[1]], int(vector[2]))
        if text in _PACKED:
            return Element(*_PACKED[text])
        if text not in names:
            text = _NAMESPACES.sub("", text)
        if text not in names or names[text] == text:
            break
        text = names[text]
    if not _TYPE_NAME.fullmatch(text):
        return None
    underlying = declarations.enumerations(code).get(text) if "enum" in code else None
    return element(underlying, names) if underlying is not None else _uniform_struct(text, names, code)


def _in_order(type_text: str) -> str:
    """A type without stars and qualifiers, with `unsigned` as its first word and without `signed`."""
    text = " ".join(_DROPPED.sub(" ", type_text.replace("*", " ")).split())
    words = text.split()
    if "signed" in words and text != "signed char":
        text = " ".join(word for word in words if word != "signed") or "int"
    if "unsigned" in words and words[0] != "unsigned":
        text = " ".join(["unsigned", *(word for word in words if word != "unsigned")])
    return text


def _array(type_text: str, names: Mapping[str, str], code: str) -> Element | None:
    """`float[4][4]` as lanes of its items."""
    base, *sizes = re.split(r"\s*\[", type_text.replace("]", ""))
    item = element(base, names, code)
    lanes = math.prod(_array_extent(size, names) or 0 for size in sizes)
    return Element(item.dtype, item.lanes * lanes) if item is not None and lanes else None


def _uniform_struct(name: str, names: Mapping[str, str], code: str) -> Element | None:
    """A struct whose members, nested ones included, all have one built-in type, as lanes of that type."""
    others = {other_name: type_text for other_name, type_text in names.items() if other_name != name}
    lanes, dtype = 0, None
    for member in members(name, names, code) or ():
        by_value = not {"*", "&"} & {*member.type}
        definition = element(member.type, others, code) if by_value else None
        if definition is None or dtype not in (None, definition.dtype):
            return None
        dtype, lanes = definition.dtype, lanes + definition.lanes * member.count
    return Element(dtype, lanes) if dtype else None


def _array_extent(text: str, names: Mapping[str, str]) -> int | None:
    """An array's extent, computed from constants; None: unknown."""
    for _ in range(MAX_DEPTH):
        text = re.sub(r"[A-Za-z_]\w*", lambda word: f"({names.get(word[0], word[0])})", text)
    try:
        return evaluate(text, {})
    except ProblemError:
        return None


@dataclass(frozen=True)
class Member:
    """A data member of a struct: an array if `count` is above one. A pointer's `type` ends with stars."""

    type: str
    name: str
    count: int = 1


def members(name: str, names: Mapping[str, str], code: str) -> tuple[Member, ...] | None:
    """The data members of the struct that a type names, in order; None: unknown struct or array extent."""
    bare = " ".join(_DROPPED.sub(" ", name).split())
    declared, full = declarations.members(code), names.get(bare, bare)
    full = full if full in declared else _NAMESPACES.sub("", full)
    inside = declared.get(full)
    if inside is None and declared.get(full.partition("<")[0].strip()) == ():
        inside = ()  # a functor template has no data, whatever its arguments
    base, _, rest = full.rpartition(">")[0].partition("<")
    parameters = declarations.type_parameters(code).get(base.strip(), ()) if rest else ()
    if parameters and inside is None:
        inside = declared.get(base.strip())
    bound = dict(zip(parameters, split_arguments(rest.encode()), strict=False))
    names = {**names, **{name: value.decode() for name, value in bound.items() if value.decode() != name}}
    listed = []
    for declared_type, member_name, sizes in inside or ():
        type_text = re.sub(r"\w+", lambda word: bound.get(word[0], word[0].encode()).decode(), declared_type)
        type_text, own_extents = _array_parts(type_text, names)
        count = 1
        for size in (*sizes, *own_extents):
            extent = _array_extent(size, names)
            if extent is None:
                return None
            count *= extent
        listed.append(Member(type_text, member_name, count))
    return tuple(listed) if inside is not None else None


def _array_parts(type_text: str, names: Mapping[str, str]) -> tuple[str, list[str]]:
    """Element type and extents of a typedef of an array; any other type as it is, without extents."""
    resolved = _without_typedefs(type_text, names)
    if not resolved.endswith("]"):
        return type_text, []
    base, *extents = re.split(r"\s*\[", resolved.replace("]", ""))
    return base, extents


def is_empty_struct(type_text: str, names: Mapping[str, str], code: str) -> bool:
    """Whether a type is a struct without data, such as a functor: it is passed as one byte of any value."""
    return members(type_text, names, code) == ()


@dataclass(frozen=True)
class PlacedMember:
    """A number or pointer in a struct: `path` is how code reaches it, such as `box.low[1]`.

    `at` is its offset in bytes; `pointer` is its type if it is a pointer, else empty.
    """

    path: str
    field: StructField
    at: int
    pointer: str = ""

    @property
    def real(self) -> bool:
        """Whether it is a floating-point number."""
        return self.field.dtype in FLOATS


def layout(
    type_text: str, names: Mapping[str, str], code: str, *, pointers: bool = False
) -> tuple[PlacedMember, ...] | None:
    """Every number in a struct, in order; None: it holds anything else, or a plan would pack it differently.

    With `pointers` it may also hold pointers, as 8-byte numbers.
    """
    placed = _layout(type_text, names, code, "", 0, pointers)
    if placed is None or not placed[0]:
        return None
    inside, size = tuple(placed[0]), placed[1]
    as_packed = c_layout([member.field for member in inside])
    return inside if as_packed == ([member.at for member in inside], size) else None


def pointee(
    type_text: str, names: Mapping[str, str], code: str = "", *, aligned: bool = False
) -> Element | None:
    """The element that a pointer points to, or that a type is; as `element`, and structs of several types.

    `aligned`: the code aligns or packs structs by hand, so the layout of a struct of several types is
    unknown.
    """
    plain = element(type_text, names, code)
    if plain is not None or type_text.count("*") > 1 or aligned:
        return plain
    placed = _layout(type_text.replace("*", " "), names, code, "", 0)
    if placed is None or not placed[0]:
        return None
    inside, size, _ = placed
    fields, end = [], 0
    for member in inside:
        fields += [("", f"uint8*{member.at - end}")] if member.at > end else []
        fields.append((member.path, member.field.dtype))
        end = member.at + numpy_dtype(member.field.dtype).itemsize
    fields += [("", f"uint8*{size - end}")] if size > end else []
    return Element("uint8", size, tuple(fields))


def size_of(inside: tuple[PlacedMember, ...]) -> int:
    """Bytes of a struct, as a plan packs it."""
    return c_layout([member.field for member in inside])[1]


def _layout(
    type_text: str, names: Mapping[str, str], code: str, path: str, depth: int, pointers: bool = False
) -> tuple[list[PlacedMember], int, int] | None:
    """The numbers in a type (and its pointers, with `pointers`), then its size and alignment in bytes."""
    resolved = _without_typedefs(type_text, names)
    if path and "*" in resolved:
        width = numpy_dtype(POINTER).itemsize
        inner = PlacedMember(path, StructField(_field_name(path), POINTER), 0, resolved)
        return ([inner], width, width) if pointers and not set("([{") & set(resolved) else None
    inside = members(type_text, names, code)
    if inside is None:
        whole = element(type_text, names, code)
        return _lanes(whole, path) if whole is not None else None
    placed: list[PlacedMember] = []
    size, alignment = 0, 1
    for member in inside:
        if len(placed) + member.count > MAX_STRUCT_NUMBERS:
            return None
        for index in range(member.count):
            inner_path = _joined(path, member.name) + (f"[{index}]" if member.count > 1 else "")
            deep = depth < MAX_DEPTH and (pointers or "*" not in member.type) and "&" not in member.type
            part = _layout(member.type, names, code, inner_path, depth + 1, pointers) if deep else None
            if part is None:
                return None
            size = -(-size // part[2]) * part[2]
            placed += [replace(inner, at=size + inner.at) for inner in part[0]]
            size, alignment = size + part[1], max(alignment, part[2])
    return placed, max(1, -(-size // alignment) * alignment), alignment


def _lanes(whole: Element, path: str) -> tuple[list[PlacedMember], int, int]:
    """The numbers of a built-in type or vector, then its size and alignment in bytes."""
    width = numpy_dtype(whole.dtype).itemsize
    names = _LANES if whole.lanes <= len(_LANES) else [str(lane) for lane in range(whole.lanes)]
    paths = [path] if whole.lanes == 1 else [_joined(path, name) for name in names[: whole.lanes]]
    fields = (StructField(_field_name(each), whole.dtype) for each in paths)
    parts = [PlacedMember(*each, at * width) for at, each in enumerate(zip(paths, fields, strict=True))]
    size = width * whole.lanes
    return parts, size, min(16, size) if whole.lanes in (2, 4) else width


def _without_typedefs(type_text: str, names: Mapping[str, str]) -> str:
    """A type with its typedefs resolved, keeping the `*` of the typedef and of its use."""
    text = type_text
    for _ in range(MAX_DEPTH):
        base = " ".join(_DROPPED.sub(" ", text.replace("*", " ")).split())
        if names.get(base, base) == base:
            break
        text = names[base] + "*" * text.count("*")
    return text


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _field_name(path: str) -> str:
    return "_".join(re.findall(r"\w+", path))
