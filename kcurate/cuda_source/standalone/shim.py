"""Shims that let legacy CUDA compile under CUDA 13, with NVRTC and nvcc alike.

`SHIM` is ordinary device code, put before a unit that uses one of its names without declaring it. Like any
declaration, each of its parts enters a kernel's file only if it is used. A texture reference becomes a
`__device__` variable of the class template `texture` (`legacy_names.cuh`) with three members: `data` (an
address in global memory), and `width` and `height` in texels (height 0: one-dimensional); 8 + 4 + 4 bytes.
The host code that launches the kernel sets them (the plan step `bind_texture`). Addressing is clamped and
filtering is point sampling, the defaults of texture references.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path


def _device_code(name: str) -> bytes:
    return Path(__file__).with_name(name).read_bytes()


# PyTorch's views of tensors: a pointer, then as many sizes and strides (in elements) as dimensions.
_ACCESSORS = _device_code("tensor_accessors.cuh")
# Complex numbers of thrust and CuPy, which NVRTC has no header of.
_COMPLEX = _device_code("thrust_complex.cuh")
_USES_COMPLEX = re.compile(rb"\bthrust\s*::\s*complex\b|\bcupy/complex\.cuh")
SHIM = _device_code("legacy_names.cuh") + _ACCESSORS
# The repair that each part of the shim belongs to, as named in the record.
TEXTURE_NAMES = frozenset((b"texture", b"tex1Dfetch", b"tex1D", b"tex2D"))
ACCESSOR_NAMES = frozenset(re.findall(rb"(?:struct|using) (\w+)(?: =| \{)", _ACCESSORS))
COMPLEX_NAMES = frozenset((b"complex", *re.findall(rb" (\w+|operator[^\w\s]+)\((?=const)", _COMPLEX)))
STD_NAMES = frozenset((b"std_min", b"std_max", b"std_clamp"))
_PARTS = {
    "texture-reference": TEXTURE_NAMES, "tensor-accessor": ACCESSOR_NAMES, "complex": COMPLEX_NAMES,
    "std-name": STD_NAMES,
}  # fmt: skip
_STD_CALL = re.compile(rb"std(?<!\wstd)\s*::\s*(?:min|max|clamp)\b")

# Types of C headers.
_INTEGERS = frozenset(re.findall(rb"typedef unsigned \w+ (\w+);", SHIM))

_NAMES = (
    {*re.findall(rb"#define (\w+)", SHIM), *re.findall(rb"typedef [\w ]+ (\w+);", SHIM)}
    | TEXTURE_NAMES
    | ACCESSOR_NAMES
)


def shim_for(text: bytes) -> bytes:
    """The shim, if the unit uses one of its names without declaring it, with its optional parts; else empty.

    A type may be declared behind its first use; then the closure decides which declaration is meant.
    """
    used = {name for name in _NAMES if name in text and _word(name).search(text)}
    declared = {name for name in used - _INTEGERS if _declares(name, text)}
    if b"texture" in declared:
        declared |= TEXTURE_NAMES
    if any(
        re.search(rb"\b(?:struct|class|using)\s+%b\b(?!::)" % name, text) for name in used & ACCESSOR_NAMES
    ):
        declared |= ACCESSOR_NAMES  # PyTorch's own header is in the tree
    shim = SHIM if used - declared or (b"std" in text and _STD_CALL.search(text)) else b""
    if b"complex" not in text:
        return shim
    if _USES_COMPLEX.search(text) and not re.search(rb"\bnamespace\s+thrust\b", text):
        shim += _COMPLEX
        if b"cupy/complex" in text and not re.search(rb"\busing\s+thrust\s*::\s*complex\b", text):
            shim += b"using thrust::complex;\n"
    return shim


@cache
def _word(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"%b(?<!\w%b)(?!\w)" % (name, name))


def _declares(name: bytes, text: bytes) -> bool:
    pattern = (
        rb"#[ \t]*define[ \t]+%b\b|\b%b[ \t]*;" if name != b"texture" else rb"#[ \t]*define[ \t]+%b\b|%b\s*\{"
    )
    return any(
        match[0][:1] in b"#t" or b"typedef" in text[text.rfind(b";", 0, match.start()) + 1 : match.start()]
        for match in re.finditer(pattern % (name, name), text)
    )


def repairs(shim_names: frozenset[bytes], others: frozenset[str]) -> tuple[str, ...]:
    """The names of the repairs made to a kernel's file; `others` are repairs without a part of the shim."""
    names = {*others, *(repair for repair, part in _PARTS.items() if shim_names & part)}
    for name in shim_names.difference(*_PARTS.values()):
        if not name.startswith((b"cuda", b"__")):
            names.add("constant" if name.isupper() else "integer-type" if name.islower() else "library-type")
    return tuple(sorted(names))
