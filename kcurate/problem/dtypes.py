"""Maps dtype names in `pair.json` to NumPy dtypes; packs values by C layout rules.

Types that NumPy lacks come from `ml_dtypes`: bfloat16, 8-bit floats (`float8_e4m3` has no infinities, as in
CUDA's `__nv_fp8_e4m3`), and `float8_e8m0`, the powers of two that scale a block. Packed types hold two 4-bit
values per byte, the first in the low half; an element is a byte and is compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from kcurate.errors import ProblemError
from kcurate.records import StructField

DTYPES: Mapping[str, np.dtype[Any]] = {
    **{
        name: np.dtype(name)
        for name in [
            *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
            *("float16", "float32", "float64"),
        ]
    },
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "int4x2": np.dtype("uint8"),
    "uint4x2": np.dtype("uint8"),
    "float4_e2m1x2": np.dtype("uint8"),
}
# Bytes of each integer type, and whether it is signed.
_INTEGERS: Mapping[str, tuple[int, bool]] = {
    name: (kind.itemsize, kind.kind == "i") for name, kind in DTYPES.items() if kind.kind in "iu"
}
# Unit roundoff of each floating type (half the spacing at 1).
UNIT_ROUNDOFF: Mapping[str, float] = {
    "float8_e5m2": 2.0**-3,
    "float8_e4m3": 2.0**-4,
    "bfloat16": 2.0**-8,
    "float16": 2.0**-11,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
}
# Smallest normal number; below it the ULP is constant.
SMALLEST_NORMAL: Mapping[str, float] = {
    name: float(ml_dtypes.finfo(DTYPES[name]).smallest_normal)  # type: ignore[no-untyped-call]
    for name in UNIT_ROUNDOFF
}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy type for an element type's name.

    Raises:
        ProblemError: there is no such type.
    """
    if name not in DTYPES:
        raise ProblemError(f"unknown dtype {name!r}", hint=f"one of {', '.join(DTYPES)}")
    return DTYPES[name]


def is_float(name: str) -> bool:
    """True for the floating types."""
    return name in UNIT_ROUNDOFF


def scalar_bytes(name: str, value: float) -> bytes:
    """The bytes of one value in the given type.

    Raises:
        ProblemError: an integer that does not fit, or an unknown type.
    """
    kind = numpy_dtype(name)
    try:
        float(value)
    except OverflowError as error:
        raise ProblemError(f"{value} does not fit {name}") from error
    if name in _INTEGERS:
        size, signed = _INTEGERS[name]
        low = -(1 << 8 * size - 1) if signed else 0
        if not math.isfinite(value) or int(value) != value or not low <= value < low + (1 << 8 * size):
            raise ProblemError(f"{value} does not fit {name}")
        return int(value).to_bytes(size, "little", signed=signed)
    with np.errstate(over="ignore"):
        stored = np.asarray(value).astype(kind)
    if is_float(name) and np.isinf(stored) and math.isfinite(value):
        raise ProblemError(f"{value} does not fit {name}")
    return stored.tobytes()


def c_layout(fields: Sequence[StructField]) -> tuple[list[int], int]:
    """Byte offset of each member, and the struct's total size, in C layout."""
    offsets, at, alignment = [], 0, 1
    for member in fields:
        width = numpy_dtype(member.dtype).itemsize
        at += -at % width
        offsets.append(at)
        at, alignment = at + width * member.count, max(alignment, width)
    return offsets, at + -at % alignment


def pack_struct(fields: Sequence[StructField], values: Mapping[str, Any]) -> bytes:
    """A struct passed by value: members aligned as in C, total size padded to the largest alignment.

    A member of `count` elements takes a list, or one value for all of them.

    Raises:
        ProblemError: a member without a value, a value without a member, or one that does not fit.
    """
    unknown = sorted(set(values) - {member.name for member in fields})
    if unknown:
        raise ProblemError(f"the struct has no member {unknown[0]!r}")
    offsets, size = c_layout(fields)
    data = bytearray(size)
    for member, at in zip(fields, offsets, strict=True):
        if member.name not in values:
            raise ProblemError(f"the struct member {member.name!r} has no value")
        value = values[member.name]
        items = list(value) if isinstance(value, list | tuple) else [value] * member.count
        if len(items) != member.count:
            raise ProblemError(
                f"the struct member {member.name!r} takes {member.count} values, not {len(items)}"
            )
        packed = b"".join(scalar_bytes(member.dtype, item) for item in items)
        data[at : at + len(packed)] = packed
    return bytes(data)
