"""Headers that device code includes out of habit are there, every header that a side may include compiles."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")

from kcurate.backends import open_compiler
from kcurate.backends.base import Compiled, EntryPoint
from kcurate.backends.cuda import nvrtc
from kcurate.backends.cuda.host_headers import HEADERS
from kcurate.headers import IN_SIDES
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
