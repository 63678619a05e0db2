"""Code that overloads CUDA's own functions, or defines them anew, means here what it means to NVRTC."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import Program, run

from kcurate.backends.emulator import source


def test_an_overload_leaves_the_cuda_function_visible() -> None:
    code = """
    __device__ inline float2 make_float2(float x) { return make_float2(x, -x); }
    __device__ inline float3 max(float3 a, float3 b)
    {
        return make_float3(max(a.x, b.x), max(a.y, b.y), max(a.z, b.z));
    }
    template <class T> struct pair { T a, b; };
    template <class T> __device__ T min(pair<T> p) { return min(p.a, p.b); }
    extern "C" __global__ void f(float *out) {
        float2 both = make_float2(3.0f), one = make_float2(4.0f, 5.0f);
        float3 top = max(make_float3(1.0f, 7.0f, 2.0f), make_float3(2.0f, 6.0f, 9.0f));
        pair<int> p = {8, 6};
        out[0] = both.x; out[1] = both.y; out[2] = one.y; out[3] = top.x + top.y + top.z; out[4] = min(p);
    }"""
    (out,) = run(code, np.zeros(5, np.float32), block=1)
    assert out.tolist() == [3, -3, 5, 18, 6]


def test_an_overload_does_not_hijack_calls_of_the_cuda_function() -> None:
    """Were the code's `max` the only one in sight, its narrow parameters would cut the numbers."""
    code = """
    __device__ unsigned char max(unsigned char a, unsigned char b) { return a > b ? a : b; }
    extern "C" __global__ void f(int *out) { out[0] = max(1000, 70000); }"""
    (out,) = run(code, np.zeros(1, np.int32), block=1)
    assert out.tolist() == [70000]


@pytest.mark.parametrize("header", ["cuda_fp16.h", "cuda_bf16.h", "mma.h"])
def test_short_floats_leave_the_functions_of_other_types_visible(header: str) -> None:
    code = f"""#include <{header}>
    extern "C" __global__ void f(float *sum, int *out) {{
        atomicAdd(sum, 1.5f);
        atomicAdd(out, __hadd(4, 8));
    }}"""
    total, out = run(code, np.zeros(1, np.float32), np.zeros(1, np.int32), block=2)
    assert (total[0], out[0]) == (3.0, 12)


@pytest.mark.parametrize(
    "other",
    ["", "__device__ float2 make_float2(float x) { return make_float2(x, -x); }"],
    ids=["alone", "beside an overload"],
)
def test_the_very_same_signature_is_the_codes_own_function(other: str) -> None:
    call = "make_float2(2.0f).y" if other else "-2.0f"
    code = f"""{other}
    __device__ float saturate(float x) {{ return x + 40.0f; }}
    __device__ float rsqrtf(float x) {{ return x * 2.0f; }}
    extern "C" __global__ void f(float *out) {{ out[0] = saturate(2.0f) + rsqrtf(4.0f) + {call}; }}"""
    (out,) = run(code, np.zeros(1, np.float32), block=1)
    assert out.tolist() == [48]


def test_a_kernel_may_have_the_name_of_a_function_of_cuda() -> None:
    code = """
    __device__ float saturate(float x, float top) { return x > top ? top : x; }
    __global__ void rsqrtf(float *out) { out[0] = saturate(5.0f, 3.0f); }
    __global__ void j0(float *out) { out[0] = 7.0f; }"""
    program = Program(code, ("rsqrtf", "j0"))
    for kernel, expected in (("rsqrtf", 3), ("j0", 7)):
        assert program.run(np.zeros(1, np.float32), block=1, kernel=kernel)[0].tolist() == [expected]


@pytest.mark.parametrize(
    "declaration",
    [
        "static __shared__ int part[32];",
        "__shared__ static int part[32];",
        "static volatile __shared__ int part[32];",
        "__shared__ volatile static int part[32];",
    ],
)
def test_shared_memory_may_be_called_static_too(declaration: str) -> None:
    code = f"""
    static __device__ int last(int at) {{ return 31 - at; }}
    extern "C" __global__ void f(int *a) {{
        {declaration}
        part[threadIdx.x] = a[threadIdx.x];
        __syncthreads();
        a[threadIdx.x] = part[last(threadIdx.x)];
    }}"""
    values = np.arange(32, dtype=np.int32)
    assert (run(code, values)[0] == values[::-1]).all()


def test_integers_of_64_bits_round_as_asked() -> None:
    """One above and one below numbers that a float and a double hold; the largest of each type."""
    code = """
    extern "C" __global__ void f(double *out) {
        const long long a = (1LL << 60) + 1, b = -a, top = 9223372036854775807LL;
        const unsigned long long all = ~0ull;
        double got[] = {__ll2float_rd(a), __ll2float_ru(a), __ll2float_rz(b), __ll2float_rd(b),
                        __ll2double_ru(a), __ll2double_rn(a), __ll2double_rz(top), __ll2double_ru(top),
                        __ull2float_rz(all), __ull2float_ru(all), __ull2double_rd(all), __ull2double_rn(0)};
        for (int i = 0; i < 12; i++) out[i] = got[i];
    }"""
    (out,) = run(code, np.zeros(12), block=1)
    half = 2.0**60
    assert out.tolist() == [
        *(half, half + 2.0**37, -half, -half - 2.0**37),
        *(half + 2.0**8, half, 2.0**63 - 2.0**10, 2.0**63),
        *(2.0**64 - 2.0**40, 2.0**64, 2.0**64 - 2.0**11, 0.0),
    ]


def test_functions_are_read_off_headers_at_the_outermost_level_only() -> None:
    text = 'extern "C" { int outer(int); } namespace n { int inner(int); } struct s { int part(); }; '
    text += "int last() {}"
    assert source.declared(text) == {"outer", "last"}


def test_conflicts_are_read_off_the_messages_of_both_compilers() -> None:
    gcc = (
        "kernel.cu:1:7: error: 'float {anonymous}::fminf(float, float)' conflicts with a previous declaration"
    )
    clang = (
        "kernel.cu:1:7: error: declaration conflicts with target of using declaration already in scope\n"
        "float fminf(float a, float b) { return a; }"
    )
    for log in (gcc, clang):
        assert source.conflicting(log, {"fminf", "fmaxf"}) == {"fminf"}
    assert source.conflicting("kernel.cu:1:7: error: 'fminf' was not declared", {"fminf"}) == set()
