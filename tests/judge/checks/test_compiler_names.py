"""Names by which a side could tell the emulator from a GPU."""

from __future__ import annotations

import pytest

from kcurate.judge.checks.compiler_names import compiler_names
from kcurate.judge.checks.lexer import Source


@pytest.mark.parametrize(
    "code",
    [
        "#ifdef __KCURATE_EMULATOR__\n#endif",
        "#if defined(__GNUC__) && __GNUC__ > 4\n#endif",
        "int k = __OPTIMIZE__;",
        "#ifndef __x86_64__\n#endif",
        "int k = sizeof(long double);",
        "int k = kcu_lane;",
        "int k = __COUNTER__;",
        "#ifdef __syncthreads\n#endif",
        "#ifdef NV_IF_TARGET\n#endif",
        "#ifndef __DEVICE_FUNCTIONS_H__\n#define __DEVICE_FUNCTIONS_H__\nint on_host;\n#endif\nint x;",
        "#if 0\n#define __k8 1\n#endif\n#ifdef __k8\n#endif",
        "#define TEXT(x) #x\nint k = sizeof(TEXT(threadIdx));",
        "#define TEXT(...) # __VA_ARGS__",
        "#define OF(x) __GNU##x\nint k = OF(C__);",
        "#define OF(x, y) x##ux##y\nint k = OF(__lin, __);",
        "#define _ARM 1\n#ifdef _LP64\n#endif",
    ],
)
def test_what_tells_compilers_apart_is_refused(code: str) -> None:
    assert [finding.check for finding in compiler_names(Source(code))][:1] == ["compilers"]


@pytest.mark.parametrize(
    "code",
    [
        "#if __CUDA_ARCH__ >= 800\n#endif",
        "__global__ void __launch_bounds__(256) f(float *__restrict__ x) { *x = __FLT_MAX__; }",
        "// __GNUC__\nlong long k = 3; double d = 1; unsigned long x;",
        "float f = __expf(x) + __ldg(p) + __shfl_down_sync(m, v, 1);",
        "#ifdef USE_TILES\n#endif",
        "#ifndef _TILES_H_\n#define _TILES_H_\nint x;\n#endif",
        "#define __TILE__ 16\n#if __TILE__ > 8\nint x[__TILE__];\n#endif",
        "#if CUDART_VERSION >= 9000 && defined(__CUDACC__)\n#endif",
        "#ifndef FLT_MAX\n#define FLT_MAX 3.4e38f\n#endif",
        "#define ADD(op) __f##op##_rn(1.0f, 2.0f)",
    ],
)
def test_what_means_the_same_everywhere_is_allowed(code: str) -> None:
    assert not list(compiler_names(Source(code)))
