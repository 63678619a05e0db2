"""Stand-ins for the C and C++ headers that device code often includes; NVRTC ships none of them.

Integers, limits and sizes come from the CUDA C++ library's own headers; constants and names in `std` are
defined here; the functions themselves are built into NVRTC. Of the driver's `cuda.h` device code needs
one type. The CUDA C++ library's waits neither read a clock nor sleep. Not covered: CUDA's headers, which come
from wheels (`kcurate.backends.cuda.nvrtc`).
"""

from __future__ import annotations

from collections.abc import Mapping

_FLOAT = """#pragma once
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define DBL_MANT_DIG 53
#define FLT_DIG 6
#define DBL_DIG 15
#define FLT_EPSILON 1.19209290e-07F
#define DBL_EPSILON 2.2204460492503131e-16
#define FLT_MIN 1.17549435e-38F
#define DBL_MIN 2.2250738585072014e-308
#define FLT_MAX 3.40282347e+38F
#define DBL_MAX 1.7976931348623157e+308
#define FLT_MAX_EXP 128
#define FLT_MIN_EXP (-125)
#define DBL_MAX_EXP 1024
#define DBL_MIN_EXP (-1021)
"""
# All that device code takes from the driver's header: a TMA descriptor (CUDA Driver API, CUtensorMap).
_DRIVER = """#pragma once
#define CUDA_VERSION 13000
typedef struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; } CUtensorMap;
"""
# What `assert` is with NDEBUG, which NVRTC is given too.
_ASSERT = "#undef assert\n#define assert(...) ((void)0)\n"
_INTEGER_NAMES = "int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t intptr_t uintptr_t"
_MATH = """#pragma once
#define HUGE_VALF __int_as_float(0x7f800000)
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
"""
_MATH_NAMES = """
    abs fabs sqrt cbrt exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh
    asinh acosh atanh floor ceil round trunc rint fmod fmin fmax fma hypot erf erfc tgamma lgamma ldexp
    copysign isnan isinf isfinite signbit
"""


def _in_std(names: str) -> str:
    """Names of the global namespace, also made available in `std`."""
    return "namespace std {\n" + "".join(f"using ::{name};\n" for name in names.split()) + "}\n"


def _from_library(header: str) -> str:
    """The CUDA C++ library's `cuda/std/<header>` under its standard name."""
    return f"#pragma once\n#include <cuda/std/{header}>\nnamespace std {{\nusing namespace cuda::std;\n}}\n"


# The library's own waits without the clock and the sleep (cuda/std/__thread/threading_support.h of CCCL 3.0),
# so that a binary with either has it from elsewhere. What would give up after a time waits on.
_WAITS = """#pragma once
#include <cuda/std/__thread/threading_support_cuda.h>
_CCCL_PUSH_MACROS
_LIBCUDACXX_BEGIN_NAMESPACE_STD
#define _LIBCUDACXX_POLLING_COUNT 16
_LIBCUDACXX_HIDE_FROM_ABI void __cccl_thread_yield_processor() {}
template <class _Fn>
_LIBCUDACXX_HIDE_FROM_ABI bool __cccl_thread_poll_with_backoff(
  _Fn&& __f, _CUDA_VSTD::chrono::nanoseconds = _CUDA_VSTD::chrono::nanoseconds::zero())
{
  while (!__f()) {}
  return true;
}
_LIBCUDACXX_END_NAMESPACE_STD
_CCCL_POP_MACROS
"""
# The same for waits that call functions (cuda_awbarrier.h, atomics on local memory). No side may name these.
BEFORE_SIDES = "#define clock64() 0ll\n#define __nanosleep(ns) ((void)(ns))\n#line 1\n"

# Headers that the library's own include.
INTERNAL: Mapping[str, str] = {"cuda/std/__thread/threading_support.h": _WAITS}
HEADERS: Mapping[str, str] = {
    "cuda.h": _DRIVER,
    "float.h": _FLOAT,
    "assert.h": _ASSERT,
    "cassert": _ASSERT,
    "cfloat": "#include <float.h>\n",
    "limits.h": "#include <cuda/std/climits>\n",
    "climits": "#include <limits.h>\n",
    "stdint.h": "#include <cuda/std/cstdint>\n",
    "cstdint": "#pragma once\n#include <stdint.h>\n" + _in_std(_INTEGER_NAMES),
    "stddef.h": "#include <cuda/std/cstddef>\n",
    "cstddef": "#pragma once\n#include <stddef.h>\n" + _in_std("size_t ptrdiff_t"),
    "math.h": _MATH,
    "cmath": "#pragma once\n#include <math.h>\n" + _in_std(_MATH_NAMES),
    "limits": _from_library("limits"),
    "type_traits": _from_library("type_traits"),
}
