"""Maps names in device code to headers: `std::` names to their device counterparts, and names to includes.

NVRTC has no C++ standard library, so a `std::` name becomes one of `cuda::std`, a global CUDA function, or a
function of kcurate's shim: `std::plus`, `std::sqrt` and `std::min` become `cuda::std::plus`, `::sqrt` and
`::std_min`. Headers that no name needs are dropped, since cub alone takes seconds to compile; a header that
came in through a dropped one (fp16 through cublas) is added. Not covered: names without a counterpart on a
GPU (`std::vector`); names behind `using namespace std`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache

from kcurate.core import headers
from kcurate.cuda_source.parse.items import Item
from kcurate.cuda_source.text.blanking import blank_literals
from kcurate.cuda_source.text.tokens import IDENTIFIER

_INCLUDE = re.compile(rb"\s*#\s*include\s*[<\"]([\w/.]+)[>\"]")

# Names in `cuda::std` by the header of the CUDA C++ library that declares them.
_CUDA_STD_NAMES = {
    "limits": """
        numeric_limits
    """,
    "array": """
        array
    """,
    "tuple": """
        tuple make_tuple tie get tuple_size tuple_element tuple_cat apply forward_as_tuple ignore
    """,
    "bit": """
        bit_cast popcount countl_zero countr_zero has_single_bit bit_ceil bit_floor bit_width
    """,
    "complex": """
        complex
    """,
    "functional": """
        plus minus multiplies divides modulus negate less less_equal greater greater_equal equal_to
        not_equal_to logical_and logical_or logical_not bit_and bit_or bit_xor invoke
    """,
    "utility": """
        pair make_pair move forward declval swap exchange integer_sequence index_sequence
        make_index_sequence make_integer_sequence index_sequence_for as_const in_place in_place_t
    """,
    "type_traits": """
        is_same is_integral is_floating_point is_arithmetic is_signed is_unsigned is_pointer is_const
        is_void is_class is_enum is_base_of is_convertible is_reference is_lvalue_reference
        is_rvalue_reference is_array is_function is_trivially_copyable is_trivially_destructible
        is_default_constructible is_constructible is_invocable is_empty is_null_pointer is_volatile
        is_nothrow_invocable enable_if enable_if_t conditional conditional_t decay decay_t remove_cv
        remove_cv_t remove_const remove_const_t remove_reference remove_reference_t remove_pointer
        remove_pointer_t remove_cvref_t remove_extent_t add_const_t add_pointer_t add_lvalue_reference_t
        make_signed make_signed_t make_unsigned make_unsigned_t common_type common_type_t
        underlying_type underlying_type_t invoke_result invoke_result_t void_t integral_constant
        bool_constant true_type false_type conjunction disjunction negation conjunction_v disjunction_v
        negation_v aligned_storage aligned_storage_t alignment_of rank extent is_constant_evaluated
        type_identity_t
    """,
    "atomic": """
        memory_order memory_order_relaxed memory_order_acquire memory_order_release memory_order_acq_rel
        memory_order_seq_cst
    """,
}
_CUDA_STD_HEADER = {
    name.encode(): f"cuda/std/{header}" for header, names in _CUDA_STD_NAMES.items() for name in names.split()
}
_SHIM_FUNCTIONS = frozenset((b"min", b"max", b"clamp"))
_INTEGER_TYPE = re.compile(rb"u?int(?:_fast|_least)?(?:8|16|32|64)_t|u?intptr_t|u?intmax_t")
# Global functions and types that CUDA declares without an include.
_GLOBAL_NAMES = frozenset(
    b"""
    abs fabs sqrt cbrt exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan atan2 sinh
    cosh tanh asinh acosh atanh floor ceil round trunc rint lround llround nearbyint fmod remainder fmin
    fmax fma fdim hypot erf erfc tgamma lgamma ldexp frexp modf logb ilogb scalbn copysign nextafter
    isnan isinf isfinite signbit isnormal size_t ptrdiff_t memcpy memset memcmp printf
    """.split()
)
_STD_NAME = re.compile(rb"(?<![\w:])(?:::\s*)?std\s*::\s*([a-z]\w*)")
# Names that need a header, unless the translation unit declares them.
_NAMES_BY_HEADER = (
    ("cuda_fp16.h", rb"__half2?|half2?|__(?:float2?half\w*|half2?float\w*|h[a-z]{3,}2?|floats2half2\w*)"),
    ("cuda_bf16.h", rb"(?:__)?nv_bfloat162?|__(?:\w+2bfloat16\w*|bfloat16\w+2\w+|floats2bfloat162\w*)"),
    ("cuda_fp4.h", rb"__nv_(?:fp4|cvt_\w+fp4)\w*"),
    ("cuda_fp8.h", rb"__nv_(?:fp8|cvt_\w*(?:fp8|e8m0))\w*"),
    ("cuda/std/cstdint", _INTEGER_TYPE.pattern + rb"|U?INT(?:8|16|32|64)_MAX"),
    ("cassert", rb"assert"),
    ("cuda.h", rb"CUtensorMap"),
    ("cooperative_groups.h", rb"cooperative_groups"),
    ("cuComplex.h", rb"cu(?:Float|Double)?Complex|make_cu(?:Float|Double)Complex|cuC[a-z]{3,4}f?"),
    ("mma.h", rb"nvcuda"),
)  # fmt: skip
_NAME_PATTERNS = tuple((header, re.compile(rb"(?:" + names + rb")\Z")) for header, names in _NAMES_BY_HEADER)
_CUB_NAME = re.compile(rb"\bcub\s*::\s*((?:Block|Warp|LoadDirect|StoreDirect)[A-Z]\w*)")
# CUDA 13 removed cub's operators: the header and text that replace each.
_CUB_OPERATORS = {
    b"Sum": ("cuda/std/functional", b"cuda::std::plus<>"),
    b"Max": ("cuda/functional", b"cuda::maximum<>"),
    b"Min": ("cuda/functional", b"cuda::minimum<>"),
    b"Equality": ("cuda/std/functional", b"cuda::std::equal_to<>"),
    b"Inequality": ("cuda/std/functional", b"cuda::std::not_equal_to<>"),
}
_CUB_OPERATOR = re.compile(rb"(?<![\w:])(?:::\s*)?cub\s*::\s*(Sum|Max|Min|Equality|Inequality)\b(?!\s*<)")


def std_names(code: bytes) -> bytes:
    """The code with `std::` names and cub's operators (`cub::Sum`) replaced by their device counterparts."""
    if b"std" in code:
        code = _STD_NAME.sub(_counterpart, code)
    if b"cub" in code:
        code = _CUB_OPERATOR.sub(lambda match: _CUB_OPERATORS[match[1]][1], code)
    return code


def shim_names(names: Set[bytes]) -> Set[bytes]:
    """The functions of the shim that an item's names may become: `std_min` if it has `std` and `min`."""
    return {b"std_" + name for name in _SHIM_FUNCTIONS & names} if b"std" in names else set()


def _counterpart(match: re.Match[bytes]) -> bytes:
    name = match[1]
    if name in _SHIM_FUNCTIONS:
        return b"::std_" + name
    if name in _CUDA_STD_HEADER or (name.endswith((b"_v", b"_t")) and name[:-2] in _CUDA_STD_HEADER):
        return b"cuda::std::" + name
    if name in _GLOBAL_NAMES:
        return b"::" + name
    return name if _INTEGER_TYPE.fullmatch(name) else match[0]


def needed(bare: bytes, used: Set[bytes], declared: Set[bytes]) -> list[str]:
    """The headers that the names in code need, in the order to include them.

    `bare` is the result of `std_names` with comments and literals blanked, `used` are all names in it, and
    `declared` the names that it declares.
    """
    by_name = frozenset[str]().union(*map(_headers_of, used - declared))
    headers_needed = [header for header, _ in _NAME_PATTERNS if header in by_name]
    headers_needed += sorted({_CUDA_STD_HEADER[name] for name in _cuda_std_names(bare)})
    if b"cub" in used:
        headers_needed += sorted({_block_header(name) for name in _CUB_NAME.findall(bare)} & headers.KEPT)
    for header, text in _CUB_OPERATORS.values():
        if text in bare:
            headers_needed.append(header)
    return list(dict.fromkeys(headers_needed))


@lru_cache(maxsize=1 << 16)
def _headers_of(name: bytes) -> frozenset[str]:
    return frozenset(header for header, names in _NAME_PATTERNS if names.match(name))


def _cuda_std_names(bare: bytes) -> Iterable[bytes]:
    for name in re.findall(rb"cuda::std::(?<!\wcuda::std::)(\w+)", bare):
        base = name if name in _CUDA_STD_HEADER else name[:-2]  # `is_same_v` as `is_same`
        if base in _CUDA_STD_HEADER:
            yield base


def _block_header(name: bytes) -> str:
    """The cub header of a class: `BlockRadixSort` is in `cub/block/block_radix_sort.cuh`."""
    # `LoadDirectStriped` and the like are in the header of `BlockLoad`.
    direct_io = re.match(rb"(Load|Store)Direct", name)
    name = b"Block" + direct_io[1] if direct_io else name
    snake = re.sub(rb"(?<!\A)([A-Z])", rb"_\1", name).lower().decode()
    return f"cub/{snake.partition('_')[0]}/{snake}.cuh"


def unused(header: str, used: Set[bytes]) -> bool:
    """Whether code uses no name of a library's header; always for `cub/cub.cuh`, which NVRTC rejects."""
    if header.startswith("cub/"):
        return b"cub" not in used or not header.startswith(("cub/block/", "cub/warp/"))
    if header.startswith("cooperative_groups"):
        return b"cooperative_groups" not in used
    if header.startswith("cuda/"):
        return b"cuda" not in used and not header.endswith("cstdint")
    return False


def _needed_lines(
    parts: Iterable[tuple[Item | None, bytes]], used: Set[bytes]
) -> tuple[list[bytes], set[str]]:
    """The texts without repeated and unneeded includes, and the headers that remain."""
    lines, included = list[bytes](), set[str]()
    for item, text in parts:
        match = _INCLUDE.match(text) if item is not None and item.kind == "include" else None
        name = match[1].decode() if match else ""
        if match is None or not (name in included or unused(name, used)):
            included.add(name)
            lines.append(text)
    return lines, included


def with_headers(parts: Sequence[tuple[Item | None, bytes]]) -> tuple[bytes, frozenset[str]]:
    """The text of the file with the headers that it needs, and the names of the repairs made for that."""
    renamed = [(item, std_names(text)) for item, text in parts]
    body = b"\n".join(text for item, text in renamed if item is None or item.kind != "include")
    bare_body = blank_literals(body)
    used = frozenset(IDENTIFIER.findall(bare_body))
    declared = frozenset(name for item, _ in parts if item is not None for name in item.names)
    lines, included = _needed_lines(renamed, used)
    added = [name for name in needed(bare_body, used, declared) if name not in included]
    include_lines = [f"#include <{name}>".encode() for name in added]
    changed = {"header"} if added else set()
    if any(text != before for (_, before), (_, text) in zip(parts, renamed, strict=True)):
        changed.add("std-name")
    text = b"\n".join([*include_lines, *([b""] if include_lines else []), *lines]).lstrip(b"\n")
    return text + b"\n", frozenset(changed)
