"""`cuda::barrier`, `cuda::pipeline`, `cuda::memcpy_async` on the emulator; NVRTC compiles the same ones."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import run

from kcurate.backends.base import Compiled, EntryPoint, KernelFault

HEAD = """#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/utility>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
using barrier = cuda::barrier<cuda::thread_scope_block>;
"""
N = 128
A = np.arange(4 * N, dtype=np.float32)
X = np.zeros(N, np.float32)


def kernel(body: str) -> str:
    return (
        f"{HEAD}__global__ void f(float *x, const float *a)\n{{\n"
        f"const unsigned t = threadIdx.x, n = blockDim.x; cg::thread_block b = cg::this_thread_block();\n"
        f"(void)n; (void)b;\n{body}\n}}\n"
    )


READY = "__shared__ barrier bar; if (t == 0) init(&bar, n); __syncthreads();\n"

NEIGHBOURS = (
    READY
    + """__shared__ float s[128];
    for (int i = 0; i < 3; i++) {
        s[t] = a[t] + i;
        FIRST
        x[t] += s[(t + 1) % n];
        SECOND
    }"""
)
WAIT = "bar.arrive_and_wait();"

# A tile per step, copied a stage ahead. Every step reads what its neighbours copied.
STAGES = """__shared__ float s[2][128];
    float sum = 0;
    for (int ahead = 0, step = 0; step < 4; step++) {
        for (; ahead < 4 && ahead < step + 2; ahead++) {
            pipe.producer_acquire();
            COPY
            pipe.producer_commit();
        }
        WAIT
        sum = 2 * sum + s[step % 2][n - 1 - t];
        RELEASE
    }
    x[t] = sum;"""
STATE = """__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(b, &state);
    """
BY_GROUP = "cuda::memcpy_async(b, s[ahead % 2], a + ahead * n, SIZE, pipe);"
BY_THREAD = "cuda::memcpy_async(s[ahead % 2] + t, a + ahead * n + t, SIZE, pipe);"


def staged(copy: str = BY_GROUP, size: str = "sizeof(float) * n", wait: str = "", release: str = "") -> str:
    body = STAGES.replace("COPY", copy.replace("SIZE", size))
    return body.replace("WAIT", wait or "pipe.consumer_wait();").replace(
        "RELEASE", release or "pipe.consumer_release();"
    )


def summed() -> np.ndarray:
    total = np.zeros(N, np.float32)
    for tile in A.reshape(4, N):
        total = 2 * total + tile[::-1]
    return total


def consumed() -> np.ndarray:
    """Where 32 threads produce for the other 96."""
    total = np.zeros(N, np.float32)
    for tile in A.reshape(4, N)[:, :96]:
        total[:96] = 2 * total[:96] + tile[::-1]
    return total


GOOD = {
    "tokens": READY
    + """__shared__ float s[128]; s[t] = a[t];
    barrier::arrival_token token = bar.arrive();
    bar.wait(cuda::std::move(token));
    x[t] = s[n - 1 - t];""",
    "parity": READY
    + """__shared__ float s[128]; s[t] = a[t];
    (void)bar.arrive(); bar.wait_parity(false);
    x[t] = s[n - 1 - t];""",
    "drop": READY
    + """__shared__ float s[128]; s[t] = a[t];
    if (t >= 64) { bar.arrive_and_drop(); return; }
    bar.arrive_and_wait();
    x[t] = s[n - 1 - t];
    bar.arrive_and_wait();
    s[63 - t] += s[t + 64];
    bar.arrive_and_wait();
    x[t + 64] = s[63 - t] - s[t + 64];""",
    "one copies": READY
    + """__shared__ __align__(16) float s[128];
    if (t == 0) cuda::memcpy_async(s, a, cuda::aligned_size_t<16>(4 * n), bar);
    bar.arrive_and_wait();
    x[t] = s[n - 1 - t];""",
    "all copy": READY
    + """__shared__ float s[128];
    cuda::memcpy_async(b, s, a, sizeof(float) * n, bar);
    bar.arrive_and_wait();
    x[t] = s[n - 1 - t];""",
    "bytes that are expected": """__shared__ barrier bar;
    __shared__ __align__(16) float s[128];
    if (t == 0) { init(&bar, n); cuda::device::experimental::fence_proxy_async_shared_cta(); }
    __syncthreads();
    barrier::arrival_token token;
    if (t == 0) {
        cuda::device::memcpy_async_tx(s, a, cuda::aligned_size_t<16>(4 * n), bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, 4 * n);
    } else token = bar.arrive();
    bar.wait(cuda::std::move(token));
    x[t] = s[n - 1 - t];""",
    "bulk copies": """__shared__ barrier bar;
    namespace cde = cuda::device::experimental;
    __shared__ __align__(16) float s[128], back[128];
    if (t == 0) init(&bar, n);
    __syncthreads();
    if (t == 0) {
        cde::cp_async_bulk_global_to_shared(s, a, 4 * n, bar);
        cuda::device::barrier_expect_tx(bar, 4 * n);
    }
    bar.arrive_and_wait();
    back[t] = s[n - 1 - t];
    cde::fence_proxy_async_shared_cta();
    __syncthreads();
    if (t == 0) {
        cde::cp_async_bulk_shared_to_global(x, back, 4 * n);
        cde::cp_async_bulk_commit_group();
        cde::cp_async_bulk_wait_group_read<0>();
    }""",
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_barriers_order_what_a_block_reads_and_writes(name: str) -> None:
    assert run(kernel(GOOD[name]), X, A, block=N)[0].tolist() == A[:N][::-1].tolist()


@pytest.mark.parametrize(
    ("first", "second"), [(WAIT, WAIT), (WAIT, ""), ("", WAIT), ("(void)bar.arrive();", WAIT)]
)
def test_a_missing_barrier_or_wait_shows(first: str, second: str) -> None:
    code = kernel(NEIGHBOURS.replace("FIRST", first).replace("SECOND", second))
    if first.startswith("(void)"):
        code = code.replace("init(&bar, n)", "init(&bar, 2 * n)")
    found = run(code, X, A, block=N)[0]
    right = np.array_equal(found, 3 * np.roll(A[:N], -1) + 3)
    assert right is (first == second)


PIPELINES = {
    "block": STATE + staged(),
    "block, aligned": STATE
    + staged(size="cuda::aligned_size_t<16>(4 * n)").replace("float s[2]", "__align__(16) float s[2]"),
    "block, by thread": STATE + staged(BY_THREAD, "sizeof(float)"),
    "thread": "auto pipe = cuda::make_pipeline();\n"
    + staged(BY_THREAD, "sizeof(float)", "pipe.consumer_wait(); __syncthreads();",
             "pipe.consumer_release(); __syncthreads();"),
    "thread, by count": "auto pipe = cuda::make_pipeline();\n"
    + staged(BY_THREAD, "cuda::aligned_size_t<4>(4)",
             "if (step < 3) cuda::pipeline_consumer_wait_prior<1>(pipe);"
             " else cuda::pipeline_consumer_wait_prior<0>(pipe); __syncthreads();", "__syncthreads();"),
    "roles": """__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ float s[2][96];
    const bool fills = t < 32;
    using role = cuda::pipeline_role;
    auto pipe = cuda::make_pipeline(b, &state, fills ? role::producer : role::consumer);
    if (fills) {
        for (int step = 0; step < 4; step++) {
            pipe.producer_acquire();
            for (int i = t; i < 96; i += 32)
                cuda::memcpy_async(s[step % 2] + i, a + step * n + i, sizeof(float), pipe);
            pipe.producer_commit();
        }
    } else {
        for (int step = 0; step < 4; step++) {
            pipe.consumer_wait();
            x[t - 32] = 2 * x[t - 32] + s[step % 2][127 - t];
            pipe.consumer_release();
        }
    }""",
    "a count of producers": """__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 1> state;
    __shared__ float s[96];
    auto pipe = cuda::make_pipeline(b, &state, size_t(32));
    for (int step = 0; step < 4; step++) {
        if (t < 32) {
            pipe.producer_acquire();
            for (int i = t; i < 96; i += 32) s[i] = a[step * n + i];
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            x[t - 32] = 2 * x[t - 32] + s[127 - t];
            pipe.consumer_release();
        }
    }""",
}  # fmt: skip


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_bring_tiles_in_order(name: str) -> None:
    wanted = consumed() if name in ("roles", "a count of producers") else summed()
    assert run(kernel(PIPELINES[name]), X, A, block=N)[0].tolist() == wanted.tolist()


SKIPPED = {
    "block, no wait": PIPELINES["block"].replace("pipe.consumer_wait();", ""),
    "thread, no wait": PIPELINES["thread"].replace("pipe.consumer_wait();", ""),
    "thread, no barriers": PIPELINES["thread"].replace("__syncthreads();", ""),
    "roles, no wait": PIPELINES["roles"].replace("pipe.consumer_wait();", ""),
    "roles, no acquire": PIPELINES["roles"].replace("pipe.producer_acquire();", ""),
    "too late a count": PIPELINES["thread, by count"].replace("wait_prior<1>", "wait_prior<2>"),
}


@pytest.mark.parametrize("name", SKIPPED)
def test_a_wait_that_is_missing_shows(name: str) -> None:
    try:
        found = run(kernel(SKIPPED[name]), X, A, block=N)[0]
    except KernelFault as fault:
        assert "more arrivals" in str(fault) or "deadlock" in str(fault)
    else:
        assert not np.array_equal(found, consumed() if "roles" in name else summed())


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (READY + "if (t < 100) bar.arrive_and_wait();", r"deadlock .* 100 for an mbarrier"),
        (READY + "if (t) bar.arrive_and_wait(); else __syncthreads();", r" 1 wait .* 127 for an mbarrier"),
        ("__shared__ barrier bar; bar.arrive_and_wait();", "not initialised"),
        (READY + "(void)bar.arrive(2); bar.arrive_and_wait();", "more arrivals"),
        (STATE + "for (int i = 0; i < 3; i++) pipe.producer_acquire(), pipe.producer_commit();", "deadlock"),
        (STATE + "pipe.consumer_wait();", "deadlock"),
        (READY + "__shared__ float s[8]; cuda::memcpy_async(s + 1, a, cuda::aligned_size_t<16>(16), bar);",
         "misaligned"),
    ],
)  # fmt: skip
def test_misuse_ends_the_run_at_once(body: str, why: str) -> None:
    with pytest.raises(KernelFault, match=why):
        run(kernel(body), X, A, block=N)


@pytest.mark.parametrize(
    "body", ["cuda::device::experimental::cp_async_bulk_tensor_1d_global_to_shared(s, 0, 0, bar);"]
)
def test_what_is_missing_is_unsupported(body: str) -> None:
    with pytest.raises(KernelFault) as caught:
        run(kernel(READY + "__shared__ float s[4]; " + body), X, A, block=N)
    assert caught.value.reason == "unsupported"


def test_nvrtc_compiles_the_same_programs() -> None:
    pytest.importorskip("cuda.bindings", reason="NVRTC is not installed")
    from kcurate.backends.cuda.compiler import CudaCompiler

    bodies = [*GOOD.values(), *PIPELINES.values()]
    kernels = [f"namespace n{i} {{ {kernel(body).removeprefix(HEAD)} }}\n" for i, body in enumerate(bodies)]
    entries = [EntryPoint(f"n{i}::f") for i in range(len(bodies))]
    made = CudaCompiler("sm_90").compile(HEAD + "".join(kernels), entries)
    assert isinstance(made, Compiled), made.log
