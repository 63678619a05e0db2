"""Stand-ins for the C and C++ headers that device code often includes; NVRTC ships none of them.

Integers, limits and sizes come from headers of the CUDA C++ library, constants of floating types from headers
of the emulator; names in `std` are listed here, and the functions are built into NVRTC. From the driver's
`cuda.h` device code needs only one type. Waits of the CUDA C++ library are replaced by ones that neither read
a clock nor sleep. Not covered: CUDA's headers, which come from wheels (`kcurate.backends.cuda.nvrtc`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# Headers that both backends use.
_SHARED = Path(__file__).parent.parent / "emulator" / "include"
# The only type of the driver's header that device code needs: a TMA descriptor (CUDA Driver API,
# CUtensorMap).
_DRIVER = """#pragma once
#define CUDA_VERSION 13000
typedef struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; } CUtensorMap;
"""
# `assert` with NDEBUG, which is defined for NVRTC too.
_ASSERT = "#undef assert\n#define assert(...) ((void)0)\n"
_INTEGER_NAMES = "int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t uint64_t intptr_t uintptr_t"
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


# The library's waits without the clock and the sleep (cuda/std/__thread/threading_support.h of CCCL 3.0), so
# that only a side's own code can put either into a binary. Waits with a timeout wait forever.
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
# The same for waits that call these functions (cuda_awbarrier.h, atomics on local memory). Sides must not use
# them.
BEFORE_SIDES = "#define clock64() 0ll\n#define __nanosleep(ns) ((void)(ns))\n#line 1\n"

# Headers that the library's headers include.
INTERNAL: Mapping[str, str] = {"cuda/std/__thread/threading_support.h": _WAITS}
HEADERS: Mapping[str, str] = {
    "cuda.h": _DRIVER,
    "float.h": (_SHARED / "float.h").read_text(),
    "assert.h": _ASSERT,
    "cassert": _ASSERT,
    "cfloat": "#include <float.h>\n",
    "limits.h": "#include <cuda/std/climits>\n",
    "climits": "#include <limits.h>\n",
    "stdint.h": "#include <cuda/std/cstdint>\n",
    "cstdint": "#pragma once\n#include <stdint.h>\n" + _in_std(_INTEGER_NAMES),
    "stddef.h": "#include <cuda/std/cstddef>\n",
    "cstddef": "#pragma once\n#include <stddef.h>\n" + _in_std("size_t ptrdiff_t"),
    "math.h": (_SHARED / "math.h").read_text(),
    "cmath": "#pragma once\n#include <math.h>\n" + _in_std(_MATH_NAMES),
    "limits": _from_library("limits"),
    "type_traits": _from_library("type_traits"),
}
