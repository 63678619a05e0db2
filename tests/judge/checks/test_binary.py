"""The binary checks find what source can hide: clocks, sleeps, heap, printf, state.

They pin the opcodes that `checks.binary` reads, for several architectures.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcurate.backends.base import Compiled, EntryPoint
from kcurate.errors import InputError
from kcurate.judge.checks import static
from kcurate.records import Launch, Side, Step, Upload

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")

from kcurate.backends.cuda.compiler import CudaCompiler

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
LAUNCH = Launch("k", (1,), (1,))


def compiled(body: str, head: str = "", arch: str = "sm_90") -> tuple[Compiled, Side]:
    code = f'{head}\nextern "C" __global__ void k(float *x, int n)\n{{\n{body}\n}}\n'
    made = CudaCompiler(arch).compile(code, [EntryPoint("k")])
    assert isinstance(made, Compiled), made
    return made, Side(code, (LAUNCH,))


def found(body: str, head: str = "", arch: str = "sm_90") -> list[str]:
    return [finding.check for finding in static.check_binary(*compiled(body, head, arch))]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    "body",
    [
        "x[0] = (float)clock();",
        "unsigned t; asm volatile(\"mov.u32 %0, %%clock_hi;\" : \"=r\"(t)); x[0] = t;",
        "unsigned long long t; asm volatile(\"mov.u64 %0, %%clock64;\" : \"=l\"(t)); x[0] = t;",
        "unsigned long long t; asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(t)); x[0] = t;",
        "asm volatile(\"nanosleep.u32 %0;\" :: \"r\"(n)); x[0] = 1;",
        "asm volatile(\"nanosleep.u32 100;\"); x[0] = 1;",
        "unsigned t; asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(t)); x[0] = t;",
        "unsigned t; asm volatile(\"mov.u32 %0, %%warpid;\" : \"=r\"(t)); x[0] = t;",
        "asm volatile(\"st.local.u32 [%0], %1;\" :: \"r\"(n), \"r\"(n));",
    ],
)  # fmt: skip
def test_clock_reads_and_sleeps_are_found(body: str, arch: str) -> None:
    made, side = compiled(body, arch=arch)
    assert made.outside, "the PTX has it too"
    for way in (made, replace(made, outside=())):
        assert {finding.check for finding in static.check_binary(way, side)} == {"instructions"}


@pytest.mark.parametrize("name", ["nsmid", "gridid", "envreg3", "clock64", "pm0"])
def test_registers_are_found_that_machine_code_reads_from_memory(name: str) -> None:
    bits, kind = ("64", "l") if name in ("gridid", "clock64") else ("32", "r")
    body = f'unsigned long long t = 0; asm volatile("mov.u{bits} %0, %%{name};" : "={kind}"(t)); x[0] = t;'
    if bits == "32":
        body = body.replace("unsigned long long", "unsigned")
    assert "instructions" in found(body)


def test_a_wait_with_a_time_limit_is_found() -> None:
    wait = (
        'unsigned p; asm volatile("{ .reg .pred q; mbarrier.try_wait.shared.b64 q, [%1], %2HINT; '
        'selp.u32 %0, 1, 0, q; }" : "=r"(p) : "r"(n), "l"((unsigned long long)n)); x[0] = p;'
    )
    assert found(wait.replace("HINT", "")) == []
    assert found(wait.replace("HINT", ", 1000")) == ["instructions", "instructions"]


@pytest.mark.parametrize("arch", ARCHS)
def test_ordinary_machine_code_is_allowed(arch: str) -> None:
    body = """
    __shared__ float part[64];
    part[threadIdx.x] = sinf(x[threadIdx.x]) / (1.0f + x[n]);
    __syncthreads();
    float sum = part[63 - threadIdx.x] + __shfl_down_sync(0xffffffffu, part[0], 1);
    for (int i = 0; i < n; i++)
        sum = fmaf(sum, rsqrtf(sum), expf(x[i]));
    atomicAdd(&x[blockIdx.x], sum);
    x[n] = __popc(__activemask()) + (int)x[5] % n;
    """
    assert found(body, arch=arch) == []


@pytest.mark.parametrize(
    "arch", [ARCHS[-1], *(pytest.param(arch, marks=pytest.mark.slow) for arch in ARCHS[1:-1])]
)
@pytest.mark.parametrize(
    ("head", "body"),
    [
        (
            "#include <cuda/barrier>",
            "__shared__ cuda::barrier<cuda::thread_scope_block> b; if (!threadIdx.x) init(&b, blockDim.x); "
            "__syncthreads(); b.arrive_and_wait();",
        ),
        ("#include <cuda/barrier>", "((cuda::barrier<cuda::thread_scope_device> *)x)->arrive_and_wait();"),
        (
            "#include <cuda_awbarrier.h>",
            "__shared__ nvcuda::experimental::awbarrier b; if (!threadIdx.x) init(&b, blockDim.x); "
            "__syncthreads(); b.arrive_and_wait();",
        ),
        ("#include <cooperative_groups.h>", "cooperative_groups::this_grid().sync();"),
        ("#include <cuda/atomic>", "cuda::atomic_ref<float> r(x[0]); r.wait(7); x[1] = r.load();"),
        (
            "#include <cuda/pipeline>\n#include <cooperative_groups.h>",
            "__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> s; __shared__ float t[256]; "
            "auto g = cooperative_groups::this_thread_block(); auto p = cuda::make_pipeline(g, &s); "
            "p.producer_acquire(); cuda::memcpy_async(g, t, x, sizeof(float) * 256, p); p.producer_commit(); "
            "p.consumer_wait(); x[threadIdx.x] = t[n]; p.consumer_release();",
        ),
    ],
)
def test_waits_of_the_library_neither_sleep_nor_read_a_clock(head: str, body: str, arch: str) -> None:
    assert found(f"{body} x[threadIdx.x] = n;", head, arch) == []


@pytest.mark.parametrize(
    "header",
    [
        "cooperative_groups.h", "cooperative_groups/reduce.h", "cuda/std/complex", "cuda/atomic", "mma.h",
        "cuda/ptx", "cuda/functional", "cub/block/block_radix_sort.cuh", "cub/warp/warp_reduce.cuh",
    ],
)  # fmt: skip
def test_library_variables_are_not_state(header: str) -> None:
    assert found("x[n] = 1;", f"#include <{header}>") == []


def test_no_header_excuses_a_clock() -> None:
    assert "instructions" in found("x[0] = (float)clock();", "#include <cuda/barrier>")


@pytest.mark.parametrize(
    "head", ["", "#include <cassert>", "#include <cuda/std/cassert>\n#include <assert.h>"]
)
def test_asserts_leave_nothing_in_the_binary(head: str) -> None:
    assert found("assert(x[0] > n); assert((0, 1)); x[1] = n;", head) == []


@pytest.mark.parametrize(
    "body", ["float *p = (float *)malloc(4 * n); p[0] = n; x[0] = p[n - 1]; free(p);", 'printf("%d", n);']
)
def test_heap_and_printf_are_found(body: str) -> None:
    assert "runtime_calls" in found(body)


@pytest.mark.parametrize(("count", "expected"), [(20_000, ["frames"]), (10_000, [])])
def test_local_memory_that_is_not_overwritten_between_runs_is_found(count: int, expected: list[str]) -> None:
    body = f"volatile float big[{count}]; float old = big[n]; big[n] = x[0]; x[1] = old;"
    assert found(body) == expected


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("__device__ int count;", "if (n) count++; x[0] = count;"),
        ("namespace { __device__ float kept[64]; }", "kept[n] = x[0]; x[1] = kept[3];"),
        ("namespace cuda { __device__ float kept[64]; }", "cuda::kept[n] = x[0]; x[1] = cuda::kept[3];"),
        ("template <int N> __device__ int kept = N;", "x[0] = kept<4>++;"),
        ("", "static int calls; x[0] = calls++;"),
    ],
)
def test_state_is_found(head: str, body: str) -> None:
    assert "state" in found(body, head)


VIRTUAL = """struct Op { __device__ virtual float of(float v) const = 0; };
namespace space { struct Twice : Op { __device__ float of(float v) const override { return 2 * v; } }; }
struct Next : Op { __device__ float of(float v) const override { return v + 1; } };"""


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("__constant__ float table[4] = {1, 2, 3, 4};", "x[n] = table[n];"),
        ("__device__ const float table[4] = {1, 2, 3, 4};", "x[n] = table[n];"),
        ("static constexpr float table[4] = {1, 2, 3, 4};", "x[n] = table[n % 4];"),
        ("", "const float table[5] = {1, 5, 2, 4, 9}; x[n] = table[n];"),
        (
            VIRTUAL,
            "space::Twice twice; Next next; const Op *ops[2] = {&twice, &next}; x[n] = ops[n % 2]->of(x[0]);",
        ),
        ("", "x[n] = (float)((__int128)n * n >> 64);"),
    ],
)
def test_constants_are_allowed(head: str, body: str) -> None:
    assert found(body, head) == []


def test_variables_that_the_plan_writes_are_allowed() -> None:
    made, side = compiled("x[0] = table[n];", "__device__ float table[64];")
    upload: Step = Upload("table", "x")
    assert static.check_binary(made, side)
    assert static.check_binary(made, Side(side.code, (upload, LAUNCH))) == ()


def test_a_name_that_ends_like_an_allowed_one_is_state() -> None:
    head = "__device__ float table[64];\n__device__ float my_table[64];"
    made, side = compiled("my_table[n] = table[n]; x[0] = my_table[3];", head)
    upload: Step = Upload("table", "x")
    hits = static.check_binary(made, Side(side.code, (upload, LAUNCH)))
    assert [hit.check for hit in hits] == ["state"]
    assert "my_table" in hits[0].what


@pytest.mark.slow
def test_huge_sections_are_found() -> None:
    assert "sections" in found("x[0] = big[n];", "__device__ const char big[20 << 20] = {1};")


def test_an_unknown_check_is_an_error() -> None:
    with pytest.raises(InputError, match="unknown check 'sanity'"):
        static.check_binary(*compiled("x[0] = 1;"), ("state", "sanity"))


def test_emulator_binaries_are_not_checked() -> None:
    binary = Compiled("emulator", b"\x7fELF", "", {}, (), "")
    assert static.check_binary(binary, Side("", (LAUNCH,))) == ()
