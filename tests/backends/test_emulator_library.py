"""The emulator's part of `cuda::std`: the same facts hold with NVRTC and the real library."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import run

from kcurate.backends.base import Compiled, EntryPoint

CODE = """
#include <cuda/std/type_traits>
#include <cuda/std/utility>
#include <cuda/std/bit>
#include <cuda/functional>
#include <cuda/std/functional>
namespace cs = cuda::std;
struct Base { int a; };
struct Derived : Base { int b; };
struct Taking { __device__ float operator()(int x) const { return x; } };
enum Kind : short { FIRST };
static_assert(cs::is_same_v<cs::common_type_t<int, float, double>, double>);
static_assert(cs::is_same_v<typename cs::common_type<const int &, long long>::type, long long>);
static_assert(cs::is_same_v<cs::remove_cvref_t<const int &>, int>);
static_assert(cs::is_same_v<cs::remove_extent_t<float[4]>, float>);
static_assert(cs::is_same_v<cs::underlying_type_t<Kind>, short>);
static_assert(cs::is_same_v<cs::invoke_result_t<Taking, int>, float>);
static_assert(cs::is_base_of_v<Base, Derived> && !cs::is_base_of_v<Derived, Base>);
static_assert(cs::is_convertible_v<int, float> && !cs::is_convertible_v<Base, int>);
static_assert(cs::is_invocable_v<Taking, int> && !cs::is_invocable_v<Taking, Base>);
static_assert(cs::is_enum_v<Kind> && cs::is_class_v<Base> && !cs::is_class_v<Kind>);
static_assert(cs::is_trivially_copyable_v<Base> && cs::is_void_v<void> && cs::is_array_v<int[2]>);
static_assert(cs::conjunction_v<cs::true_type, cs::is_const<const int>> && cs::negation_v<cs::false_type>);
static_assert(cs::is_same_v<cs::make_index_sequence<3>, cs::index_sequence<0, 1, 2>>);
static_assert(cs::popcount(255u) == 8 && cs::countl_zero((unsigned char)1) == 7 && cs::countr_zero(8u) == 3);
static_assert(cs::bit_ceil(33u) == 64 && cs::bit_floor(33u) == 32 && cs::bit_width(33u) == 6);
static_assert(cs::has_single_bit(64u) && cs::countl_zero(0u) == 32 && cs::bit_ceil(1u) == 1);
template <int... I> __device__ int sum(cs::integer_sequence<int, I...>) { return (0 + ... + I); }
template <class T, class U>
__device__ auto add(T &&t, U &&u) -> decltype(cs::forward<T>(t) + cs::forward<U>(u))
{
    return t + u;
}
__global__ void f(float *x)
{
    int i = 0;
    x[i++] = sum(cs::make_integer_sequence<int, 5>());
    x[i++] = cuda::maximum<>{}(2, 2.5f);
    x[i++] = cuda::minimum<int>{}(7, 3);
    x[i++] = cs::plus<>{}(1, 0.5f) + cs::multiplies<int>{}(3, 4) + cs::negate<>{}(2);
    x[i++] = cs::plus<unsigned char>{}(255, 2);
    x[i++] = cs::less<>{}(1, 2) + 2 * cs::equal_to<int>{}(4, 4) + 4 * cs::logical_and<>{}(1, 0);
    int old = 5;
    x[i++] = cs::exchange(old, 9) + 10 * old;
    x[i++] = add(1, 0.25f);
}
"""


def test_results() -> None:
    found = run(CODE, np.zeros(8, np.float32), block=1)[0]
    assert found.tolist() == [10, 2.5, 3, 11.5, 1, 3, 95, 1.25]


def test_nvrtc_agrees() -> None:
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")
    from kcurate.backends.cuda.compiler import CudaCompiler

    made = CudaCompiler("sm_90").compile(CODE, [EntryPoint("f")])
    assert isinstance(made, Compiled), made.log
