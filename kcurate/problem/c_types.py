"""C types as problem dtypes: built-in types, vectors as a last axis, structs of one built-in type, and
the members of other structs.

Not covered: unions, base classes, half-precision vectors wider than two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kcurate.cuda_source.brackets import closing
from kcurate.problem.dtypes import UNIT_ROUNDOFF, numpy_dtype

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
}  # fmt: skip
FLOATS = frozenset(UNIT_ROUNDOFF)
_VECTOR = re.compile(r"(u?(?:char|short|int|long|longlong)|float|double)([1-4])")
_DROPPED = re.compile(r"\b(?:const|volatile|struct|typename|__restrict(?:__)?|restrict|std\s*::)\s*|[&]")
_STRUCT = r"\b(?:struct|class)\s+(?:__align__\s*\([^)]*\)\s*|alignas\s*\([^)]*\)\s*)?{0}\s*(?:final\s*)?\{{"
_TYPEDEF_STRUCT = r"\}}\s*{0}\s*;"
_DECLARED = re.compile(r"([\w\s:]+?)((?:\s*\*)*)\s*(\w+)\s*((?:\[[^\]]*\]\s*)*)")
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
        if text in ("half2", "__half2"):
            return Element("float16", 2)
        if text not in names or names[text] == text:
            break
        text = names[text]
    return _struct(text, names, code) if re.fullmatch(r"\w+", text) else None


def _struct(name: str, names: Mapping[str, str], code: str) -> Element | None:
    """A struct whose members all have one builtin type: that many lanes."""
    others = {k: v for k, v in names.items() if k != name}
    lanes, dtype = 0, None
    for member in members(name, names, code) or ():
        found = element(member.type, others) if "*" not in member.type else None
        if found is None or dtype not in (None, found.dtype):
            return None
        dtype, lanes = found.dtype, lanes + found.lanes * member.count
    return Element(dtype, lanes) if dtype else None


@dataclass(frozen=True)
class Member:
    """A data member of a struct: an array where `count` is above one. Pointers have stars in their type."""

    type: str
    name: str
    count: int = 1


def members(name: str, names: Mapping[str, str], code: str) -> tuple[Member, ...] | None:
    """The data members of the struct that a type names, in order; None: not found, or not understood."""
    name = " ".join(_DROPPED.sub(" ", name).split())
    body = _body(names.get(name, name), code)
    if body is None or re.search(r"\bunion\b|\bvirtual\b", body):
        return None
    found = []
    for statement in re.sub(r"\b(?:public|private|protected)\s*:(?!:)", ";", body).split(";"):
        text = _DROPPED.sub(" ", statement).strip()
        if not text or "(" in text or re.match(r"(?:static|typedef|using|friend|template)\b", text):
            continue
        first, *more = re.split(r",(?![^<]*>)", re.sub(r"=.*|__\w+__", "", text))
        match = _DECLARED.fullmatch(first.strip())
        if match is None:
            return None
        for declared in (match, *(_DECLARED.fullmatch(f"{match[1]} {one.strip()}") for one in more)):
            count = _counted(declared[4], names) if declared is not None else None
            if declared is None or count is None:
                return None
            found.append(Member(match[1].strip() + "".join(declared[2].split()), declared[3], count))
    return tuple(found)


def _body(name: str, code: str) -> str | None:
    """What is between a struct's braces, bodies of functions in it left out."""
    if not re.fullmatch(r"\w+", name):
        return None
    data, end = code.encode("latin-1", "replace"), None
    match = re.search(_STRUCT.format(name), code)
    start = match.end() - 1 if match else -1
    if match is None and (typedef := re.search(_TYPEDEF_STRUCT.format(name), code)):
        openings = [one.end() - 1 for one in re.finditer(r"\btypedef\s+struct\b[^;{}()]*\{", code)]
        start = next((at for at in openings if closing(data, at) == typedef.start() + 1), -1)
    end = closing(data, start) if start >= 0 else None
    if end is None:
        return None
    body, before = code[start + 1 : end - 1], ""
    while body != before:
        body, before = re.sub(r"(?:\)[^;{}()]*)\{[^{}]*\}", ");", body), body
    return body if "{" not in body else None


def _counted(extents: str, names: Mapping[str, str]) -> int | None:
    count = 1
    for extent in re.findall(r"\[\s*(\w*)\s*\]", extents):
        text = names.get(extent, extent)
        if not text.isdigit():
            return None
        count *= int(text)
    return count
