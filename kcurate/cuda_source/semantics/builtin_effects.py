"""The side effects of CUDA's built-in functions, by name.

Taken from the headers of CUDA 13.0. An unknown name counts as a function that may do anything. Not covered:
functions of the file itself, which may have any name, and atomic operations.
"""

from __future__ import annotations

import re

# Functions that depend on the other threads of a warp, or wait for them.
WARP = (
    b"__shfl", b"__ballot", b"__any", b"__all", b"__match", b"__reduce", b"__syncwarp", b"__activemask",
)  # fmt: skip
# Names, or their beginnings, that look like arithmetic but are not.
_EFFECTS = (
    *WARP,
    b"__syncthreads", b"__threadfence", b"__nanosleep",  # wait, or order memory accesses
    b"__st",  # stores
    b"__sincosf",  # stores through its pointers
    b"__ldcv",  # reads memory again that others may be writing; the compiler treats it as a memory clobber
    b"__trap", b"__brkpt", b"__assert",  # end the kernel, or stop it
    b"__pm",  # profiler counters, which change from call to call
)  # fmt: skip
_LOADS = b"__ld"
_KNOWN = re.compile(
    rb"(?:__ld\w+|__[a-z0-9]+(?:_r[nzud])?|f?(?:min|max|abs)f?|fmaf?|"
    rb"(?:rc?brt|r?sqrt|exp|exp2|exp10|expm1|log|log2|log10|log1p|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|"
    rb"erf|erfc|pow|floor|ceil|round|trunc|rint|fmod|hypot|copysign|cbrt|fdim)f?|"
    rb"make_(?:u?(?:char|short|int|long|longlong)|float|double)[1-4](?:_(?:16|32)a)?|make_(?:half2|bfloat162)|"
    rb"make_cu(?:Float|Double)?Complex|static_cast|int|float|double|unsigned|size_t)\Z"
)


def computes(name: bytes) -> bool:
    """Whether a call only computes a value from its arguments, without side effects or memory reads."""
    return only_reads(name) and not name.startswith(_LOADS)


def only_reads(name: bytes) -> bool:
    """Whether a call has no side effects; its value may depend on memory behind a pointer argument."""
    return _KNOWN.match(name) is not None and not name.startswith(_EFFECTS)
