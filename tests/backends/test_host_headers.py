"""Headers that device code includes out of habit are there, every header that a side may include compiles."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")

from kcurate.backends import open_compiler
from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.cuda import nvrtc
from kcurate.backends.cuda.host_headers import HEADERS
from kcurate.core.headers import IN_SIDES
from kcurate.judge.checks import static
from kcurate.records import Side


def compiles(head: str, body: str = "x[0] = n;", arch: str = nvrtc.DEFAULT_ARCH) -> str:
    """Nothing, or the compiler's log."""
    made = nvrtc.compile_cubin(
        f'{head}\nextern "C" __global__ void k(float *x, int n) {{ {body} }}', arch=arch
    )
    return "" if made.cubin else made.log


def test_the_headers_on_the_list_compile_together() -> None:
    assert compiles("\n".join(f"#include <{header}>" for header in sorted(IN_SIDES))) == ""


@pytest.mark.slow
@pytest.mark.parametrize("header", sorted(IN_SIDES))
def test_every_header_on_the_list_compiles(header: str) -> None:
    assert compiles(f"#include <{header}>") == ""


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("float.h", "x[0] = FLT_MAX + FLT_EPSILON + DBL_MIN;"),
        ("cfloat", "x[0] = -FLT_MAX;"),
        ("limits.h", "x[0] = INT_MAX + UINT_MAX + CHAR_BIT + LLONG_MIN;"),
        ("climits", "x[0] = INT_MIN;"),
        ("stdint.h", "uint32_t a = n; int64_t b = a; uint8_t c = b; x[0] = c + INT32_MAX;"),
        ("cstdint", "std::uint64_t a = n; x[0] = a;"),
        ("stddef.h", "size_t a = n; ptrdiff_t b = a; x[0] = b + (x == NULL);"),
        ("cstddef", "std::size_t a = n; x[0] = a;"),
        ("math.h", "x[0] = INFINITY + NAN + M_PI + HUGE_VALF + sqrtf(x[1]);"),
        ("cmath", "x[0] = std::sqrt(x[1]) + std::fabs(x[2]) + std::pow(x[3], 2.0f) + std::isnan(x[4]);"),
        ("limits", "x[0] = std::numeric_limits<float>::infinity();"),
        ("type_traits", "x[0] = std::is_same<int, int>::value;"),
    ],
)
def test_each_gives_its_names(header: str, body: str) -> None:
    assert compiles(f"#include <{header}>", body) == ""


def test_all_of_them_go_together_in_either_order() -> None:
    lines = [
        f"#include <{name}>" for name in (*HEADERS, "cooperative_groups.h", "cuda_fp16.h", "cuda_runtime.h")
    ]
    assert compiles("\n".join(lines)) == ""
    assert compiles("\n".join(reversed(lines))) == ""


WIDTHS = (8, 16, 32, 64)
ONE_ARGUMENT = """
    fabs sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh
    atanh floor ceil round trunc rint erf erfc tgamma lgamma
"""
# What a header gives, as statements.
GIVEN = {
    "math.h": [
        *(f"x[0] = (float)({name});" for name in re.findall(r"#define (\w+)", HEADERS["math.h"])),
        *(f"x[0] = {name}f(x[1]) + (float){name}(x[2]);" for name in ONE_ARGUMENT.split()),
        'x[0] = nanf("") + (float)nan("") + isnan(x[1]) + isinf(x[1]) + isfinite(x[1]) + signbit(x[1]);',
    ],
    "cmath": [
        *(f"x[0] = std::{name}(x[1]);" for name in (*ONE_ARGUMENT.split(), "abs", "isnan", "isinf", "isfinite")),  # noqa: E501
        *(f"x[0] = std::{name}(x[1], x[2]);" for name in ["pow", "atan2", "fmod", "fmin", "fmax", "hypot", "copysign"]),  # noqa: E501
        "x[0] = std::fma(x[1], x[2], x[3]) + std::ldexp(x[1], n) + std::signbit(x[1]) + INFINITY;",
    ],
    "float.h": [f"x[0] = (float)({name});" for name in re.findall(r"#define (\w+)", HEADERS["float.h"])],
    "limits.h": ["x[0] = INT_MIN + SHRT_MAX + UCHAR_MAX; x[1] = LLONG_MAX; x[2] = ULONG_MAX; x[3] = CHAR_BIT;"],  # noqa: E501
    "stdint.h": [
        *(f"int_fast{w}_t a = n; uint_least{w}_t b = n; x[0] = a + b + INT{w}_MAX + UINT{w}_C(3);" for w in WIDTHS),  # noqa: E501
        "intmax_t a = n; uintptr_t b = (uintptr_t)x; x[0] = a + b + SIZE_MAX + INT64_MIN + UINT32_MAX;",
    ],
    "cstdint": [f"std::int{w}_t a = n; std::uint{w}_t b = n; x[0] = a + b + INT{w}_MIN;" for w in WIDTHS],
    "stddef.h": ["struct S { int a, b; }; size_t a = offsetof(S, b); ptrdiff_t b = n; x[0] = a + b + (x == NULL);"],  # noqa: E501
    "cstddef": ["std::size_t a = n; std::ptrdiff_t b = n; x[0] = a + b;"],
    "limits": ["x[0] = std::numeric_limits<float>::denorm_min() + std::numeric_limits<int>::max();"],
    "type_traits": ["std::enable_if<true, int>::type a = n; x[0] = a + std::is_integral<int>::value;"],
}  # fmt: skip


@pytest.mark.parametrize("backend", ["cuda", "emulator"])
@pytest.mark.parametrize("header", sorted(GIVEN))
def test_both_backends_give_the_same_names(header: str, backend: str) -> None:
    body = "\n".join(f"{{ {statement} }}" for statement in GIVEN[header])
    code = f'#include <{header}>\nextern "C" __global__ void k(float *x, int n) {{ {body} }}'
    binary = open_compiler(backend).compile(code, [EntryPoint("k")])
    assert isinstance(binary, Compiled), binary.log


def test_limits_are_those_of_the_platform() -> None:
    body = 'static_assert(sizeof(uint64_t) == 8 && INT_MAX == 2147483647 && FLT_MAX > 3.4e38f, ""); x[0] = n;'
    assert compiles("#include <float.h>\n#include <limits.h>\n#include <stdint.h>", body) == ""


@pytest.mark.parametrize("backend", ["cuda", "emulator"])
def test_device_code_can_take_a_tensor_map(backend: str) -> None:
    code = """#include <cuda.h>
    extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, float *x)
    {
        asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
        x[0] = sizeof(CUtensorMap) + alignof(CUtensorMap);
    }"""
    assert static.check_source(Side(code, ())) == ()
    made = open_compiler(backend).compile(code, [EntryPoint("k")])
    assert isinstance(made, Compiled), made.log


def test_blocks_and_warps_of_cub_pass_every_check() -> None:
    code = """#include <cub/block/block_reduce.cuh>
    #include <cub/warp/warp_scan.cuh>
    #include <cuda/functional>
    extern "C" __global__ void __launch_bounds__(128) k(const float *x, float *y, int n)
    {
        typedef cub::BlockReduce<float, 128> Reduce;
        typedef cub::WarpScan<int> Scan;
        __shared__ typename Reduce::TempStorage shared;
        __shared__ typename Scan::TempStorage warps[4];
        int before;
        Scan(warps[threadIdx.x / 32]).ExclusiveSum(n, before);
        const float most = Reduce(shared).Reduce(x[threadIdx.x] + before, cuda::maximum<>());
        if (threadIdx.x == 0) y[blockIdx.x] = most;
    }"""
    side = Side(code, ())
    assert static.check_source(side) == ()
    made = open_compiler("cuda").compile(code, [EntryPoint("k")])
    assert isinstance(made, Compiled), made.log
    assert static.check_binary(made, side) == ()
