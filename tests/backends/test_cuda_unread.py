"""What PTX shows that a kernel never reads."""

from __future__ import annotations

import pytest

from kcurate.backends.base import Compiled, EntryPoint, Unread
from kcurate.backends.cuda.unread import unread

HEAD = "extern __shared__ float held[];\n"
STORED = "held[threadIdx.x] = x[0]; __syncthreads();"


def of(code: str) -> Unread:
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")
    from kcurate.backends.cuda.compiler import CudaCompiler

    made = CudaCompiler().compile(code, [EntryPoint("f")], examine=True)
    assert isinstance(made, Compiled), made.log
    return made.unread[made.lowered["f"]]


def kernel(body: str, more: str = "") -> str:
    return f"{HEAD}{more}__global__ void f(const float* x, float* y, int n, float unused) {{ {body} }}"


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ("y[0] = x[n] + unused;", ()),
        ("y[0] = x[n];", (3,)),
        ("y[0] = x[0] + 0 * n;", (2, 3)),
        ("float v = unused; y[n] = 1.0f;", (0, 3)),
    ],
)
def test_arguments_without_effect_are_unread(body: str, arguments: tuple[int, ...]) -> None:
    assert of(kernel(body)).arguments == arguments


@pytest.mark.parametrize(
    "body",
    [
        "y[0] = 1.0f;",
        f"{STORED} y[0] = 1.0f;",
        "for (int i = 0; i < n; i++) held[i * 32] = x[i]; y[0] = 1.0f;",
        "reinterpret_cast<float4*>(held)[threadIdx.x] = make_float4(x[0], x[1], x[2], x[3]); y[0] = 1.0f;",
        'asm volatile("st.shared.f32 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(held)), "f"(x[0]));'
        "y[0] = 1.0f;",
    ],
)
def test_dynamic_shared_memory_that_is_only_stored_to_is_unread(body: str) -> None:
    assert of(kernel(body)).dynamic


@pytest.mark.parametrize(
    "body",
    [
        f"{STORED} y[0] = held[n];",
        f"{STORED} y[0] = held[3];",
        f"{STORED} y[0] = part(held, n);",
        f"{STORED} const float* p = n > 3 ? held : x; y[0] = p[n];",
        f"{STORED} y[0] = atomicAdd(held + n, 1.0f);",
        f"{STORED} unsigned a = (unsigned)__cvta_generic_to_shared(held), b, c, d, e;"
        'asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"'
        ': "=r"(b), "=r"(c), "=r"(d), "=r"(e) : "r"(a)); y[0] = b + c + d + e;',
        f'{STORED} unsigned b; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(b) : "r"(n)); y[0] = b;',
        f"{STORED} const float* kept[2] = {{held, x}}; y[0] = *kept[n & 1];",
        f'{STORED} asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;"'
        ':: "l"(y), "r"((unsigned)__cvta_generic_to_shared(held)) : "memory");',
    ],
)
def test_shared_memory_that_may_be_read_is_not_unread(body: str) -> None:
    part = "__device__ __noinline__ float part(const float* p, int n) { return p[n]; }\n"
    assert not of(kernel(body, part)).dynamic


def test_static_arrays_are_told_apart() -> None:
    body = """__shared__ volatile float only_stored[1024];
        __shared__ float passed_on[64];
        only_stored[threadIdx.x] = x[0];
        passed_on[threadIdx.x] = x[1];
        __syncthreads();
        y[0] = passed_on[threadIdx.x ^ 1];"""
    assert of(kernel(body)).shared_bytes == 4096


def test_arrays_that_the_compiler_drops_take_no_memory() -> None:
    assert of(kernel("__shared__ float gone[1024]; gone[threadIdx.x] = x[0]; y[0] = 1.0f;")).shared_bytes == 0


def test_a_cp_async_destination_is_not_read() -> None:
    body = """asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
        :: "r"((unsigned)__cvta_generic_to_shared(held)), "l"(x) : "memory"); y[0] = 1.0f;"""
    assert of(kernel(body)).dynamic


def test_what_is_no_ptx_has_no_kernels() -> None:
    assert unread("") == {}


@pytest.mark.parametrize(
    ("body", "only_written"),
    [
        ("y[n] = x[0];", (1,)),
        ('atomicMax(reinterpret_cast<int*>(y), n); asm volatile("" :: "f"(x[0]));', (1,)),
        ("y[n] += x[0];", ()),
        ("y[0] = x[n]; y[1] = atomicAdd(y + 2, 1.0f);", ()),
        ("const float* p = n > 3 ? y : x; y[0] = p[n];", ()),
    ],
)
def test_memory_that_a_kernel_only_writes_is_named(body: str, only_written: tuple[int, ...]) -> None:
    assert tuple(at for at in of(kernel(body)).only_written if at < 2) == only_written


@pytest.mark.parametrize(
    ("body", "alone"),
    [
        ("y[0] = x[0]; __threadfence();", True),
        ("y[0] = x[0]; __threadfence_system();", True),
        ("y[0] = x[0]; __threadfence_block();", False),  # an order within the block costs nothing
        ("y[0] = x[0]; __threadfence(); atomicAdd(y + n, 1.0f);", False),
        ("y[0] = x[0]; __threadfence(); *reinterpret_cast<volatile float*>(y + 1) = 1.0f;", False),
        ("y[0] = x[0]; __syncthreads();", False),
    ],
)
def test_fences_in_a_kernel_that_tells_nobody_anything(body: str, *, alone: bool) -> None:
    assert of(kernel(body)).lone_fences == alone
