"""Thread block clusters on the emulator: barriers, distributed shared memory, copies from block to block."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import run

from kcurate.backends.base import CompileFailure, EntryPoint, KernelFault
from kcurate.backends.emulator.compiler import EmulatorCompiler
from kcurate.judge.checks.lexer import compiler_text

HEAD = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
"""
SYNC = """asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");"""


def kernel(body: str, attributes: str = "") -> str:
    return (
        f"{HEAD}__global__ void {attributes} f(unsigned *x, const unsigned *a)\n{{\n"
        f"const unsigned t = threadIdx.x; cg::cluster_group c = cg::this_cluster();\n{body}\n}}\n"
    )


X, A = np.zeros((8, 64), np.uint32), np.arange(512, dtype=np.uint32).reshape(8, 64)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("how", ["launch", "attribute", "attribute with bounds"])
def test_blocks_read_and_write_each_other(size: int, how: str) -> None:
    body = """__shared__ unsigned s[64];
    extern __shared__ __align__(16) unsigned d[];
    const unsigned next = (c.block_rank() + 1) % c.num_blocks();
    s[t] = a[64 * blockIdx.x + t]; d[t] = 7 * s[t];
    c.sync();
    const unsigned seen = c.map_shared_rank(s, next)[63 - t] + c.map_shared_rank(d, next)[t];
    c.sync();
    c.map_shared_rank(s, next)[t] = seen;
    c.sync();
    x[64 * blockIdx.x + t] = s[t];"""
    dims = f"__cluster_dims__({size})" if how != "launch" else ""
    code = kernel(body, f"__launch_bounds__(64) {dims} " if "bounds" in how else dims)
    cluster = (size, 1, 1) if how == "launch" else None
    found = run(code, X, A, grid=8, block=64, shared_bytes=256, cluster=cluster)[0]
    first = np.arange(8) // size * size
    other = A[first + (np.arange(8) + 1) % size]
    wanted = np.zeros_like(A)
    wanted[first + (np.arange(8) + 1) % size] = other[:, ::-1] + 7 * other
    assert np.array_equal(found, wanted)


def test_ranks_and_indices() -> None:
    names = (
        "cluster_ctarank",
        "cluster_nctarank",
        "cluster_ctaid.x",
        "cluster_ctaid.y",
        "clusterid.x",
        "clusterid.y",
    )
    reads = "\n".join(f'asm("mov.u32 %0, %%{name};" : "=r"(r[{i}]));' for i, name in enumerate(names))
    body = f"""unsigned r[6]; {reads}
    unsigned *to = x + 8 * (blockIdx.y * gridDim.x + blockIdx.x);
    if (t == 0) {{
        for (int i = 0; i < 6; i++) to[i] = r[i];
        to[6] = c.block_rank() + 10 * c.thread_rank();
        to[7] = c.block_index().x + 10 * c.block_index().y + 100 * c.dim_blocks().x + 1000 * c.num_threads();
    }}"""
    found = run(kernel(body), np.zeros((4, 4, 8), np.uint32), A, grid=(4, 4, 1), cluster=(2, 2, 1))[0]
    for y in range(4):
        for x in range(4):
            rank = x % 2 + 2 * (y % 2)
            start = [
                rank,
                4,
                x % 2,
                y % 2,
                x // 2,
                y // 2,
                rank + 320 * rank,
                x % 2 + 10 * (y % 2) + 200 + 128000,
            ]
            assert found[y, x].tolist() == start


def test_ptx_reaches_the_memory_of_another_block() -> None:
    body = f"""__shared__ __align__(16) unsigned s[64];
    unsigned remote, rank, seen;
    s[t] = a[64 * blockIdx.x + t];
    {SYNC}
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(at(s + t)), "r"(c.block_rank() ^ 1));
    asm("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(remote));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(seen) : "r"(remote));
    {SYNC}
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(remote), "r"(seen * 2 + rank) : "memory");
    {SYNC}
    x[64 * blockIdx.x + t] = s[t];"""
    found = run(kernel(body), X, A, grid=8, block=64, cluster=(2, 1, 1))[0]
    assert np.array_equal(found, 2 * A + (np.arange(8) % 2)[:, None])


def test_stores_that_arrive_at_the_mbarrier_of_another_block() -> None:
    body = """__shared__ unsigned long long ready;
    __shared__ __align__(16) unsigned s[64];
    if (t == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&ready)) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(at(&ready)) : "memory");
    }
    c.sync();
    const unsigned *own = a + 64 * blockIdx.x;
    const unsigned other = c.block_rank() ^ 1;
    unsigned to, bar;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(at(s + (t < 8 ? 4 * t : t))), "r"(other));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar) : "r"(at(&ready)), "r"(other));
    if (t < 8) {
        const uint4 four = reinterpret_cast<const uint4 *>(own)[t];
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32"
                     " [%0], {%2, %3, %4, %5}, [%1];"
                     ::"r"(to), "r"(bar), "r"(four.x), "r"(four.y), "r"(four.z), "r"(four.w) : "memory");
    } else if (t >= 32) {
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %2, [%1];"
                     ::"r"(to), "r"(bar), "r"(own[t]) : "memory");
    }
    asm volatile("{.reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;"
                 "@!done bra again;}" ::"r"(at(&ready)) : "memory");
    x[64 * blockIdx.x + t] = s[t];
    c.sync();"""
    found = run(kernel(body), X, A, grid=8, block=64, cluster=(2, 1, 1))[0]
    assert np.array_equal(found, A.reshape(4, 2, 64)[:, ::-1].reshape(8, 64))


@pytest.mark.parametrize("barriers", [1, 2])
def test_a_block_whose_cluster_ends_before_it_runs_to_its_end(barriers: int) -> None:
    body = f"""__shared__ unsigned long long ready;
    if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&ready)) : "memory");
    c.sync();
    if (c.block_rank() == 0) {{
        x[64 * blockIdx.x + t] = 1;
        if (t == 0)
            asm volatile("{{.reg .b32 there; mapa.shared::cluster.u32 there, %0, 1;"
                         "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];}}"
                         ::"r"(at(&ready)) : "memory");
        {"__syncthreads();" * barriers}
        return;
    }}
    asm volatile("{{.reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;"
                 "@!done bra again;}}" ::"r"(at(&ready)) : "memory");
    x[64 * blockIdx.x + t] = 2;"""
    found = run(kernel(body), X, A, grid=8, block=64, cluster=(2, 1, 1))[0]
    assert np.array_equal(found, np.repeat([[1], [2]] * 4, 64, axis=1))


def test_an_arrival_at_the_mbarrier_of_another_block() -> None:
    body = f"""__shared__ unsigned long long bar;
    __shared__ unsigned s[64];
    if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" :: "r"(at(&bar)));
    {SYNC}
    c.map_shared_rank(s, c.block_rank() ^ 1)[t] = a[64 * blockIdx.x + t];
    unsigned remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(at(&bar)), "r"(c.block_rank() ^ 1));
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(remote) : "memory");
    asm volatile("{{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra L;}}"
        :: "r"(at(&bar)) : "memory");
    x[64 * blockIdx.x + t] = s[t];
    {SYNC}"""
    found = run(kernel(body), X, A, grid=8, block=64, cluster=(2, 1, 1))[0]
    assert np.array_equal(found, A.reshape(4, 2, 64)[:, ::-1].reshape(8, 64))


@pytest.mark.parametrize("multicast", [True, False])
def test_bulk_copies_into_other_blocks(multicast: bool) -> None:
    to_many = """if (c.block_rank() == 0 && t == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
            " [%0], [%1], 256, [%2], %3;"
            :: "r"(at(s)), "l"(a + 64 * blockIdx.x), "r"(at(&bar)), "h"((short)3));"""
    to_next = """if (t == 0) {
        unsigned there, then;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(s)), "r"(c.block_rank() ^ 1));
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(then) : "r"(at(&bar)), "r"(c.block_rank() ^ 1));
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
            " [%0], [%1], 256, [%2];"
            :: "r"(there), "r"(at(own)), "r"(then) : "memory");
    }"""
    body = f"""__shared__ __align__(16) unsigned s[64], own[64];
    __shared__ unsigned long long bar;
    own[t] = a[64 * blockIdx.x + t];
    if (t == 0) {{
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&bar)));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(at(&bar)));
    }}
    {SYNC}
    {to_many if multicast else to_next}
    asm volatile("{{.reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra L;}}"
        :: "r"(at(&bar)) : "memory");
    x[64 * blockIdx.x + t] = s[t];
    {SYNC}"""
    found = run(kernel(body), X, A, grid=8, block=64, cluster=(2, 1, 1))[0]
    pairs = A.reshape(4, 2, 64)
    wanted = np.repeat(pairs[:, :1], 2, 1) if multicast else pairs[:, ::-1]
    assert np.array_equal(found, wanted.reshape(8, 64))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("__shared__ int s[4]; c.map_shared_rank(s, 1)[0] = 1; c.sync();", "has not started"),
        (
            "__shared__ int s[4]; if (c.block_rank()) return; c.sync(); c.map_shared_rank(s, 1)[0] = 1;",
            "has ended",
        ),
        (
            "__shared__ int s[4]; c.sync(); c.map_shared_rank(s, 2)[0] = 1;",
            "a rank that its cluster does not have",
        ),
        ("if (t == 0) __syncthreads(); else c.sync();", "for their cluster"),
        ("c.barrier_arrive(); c.barrier_arrive();", "second arrival"),
        ("c.barrier_wait();", "without an arrival"),
    ],
)
def test_misuse_ends_the_run(body: str, why: str) -> None:
    with pytest.raises(KernelFault, match=why):
        run(kernel(body), X, A, grid=2, block=64, cluster=(2, 1, 1))


def test_a_missing_cluster_barrier_shows() -> None:
    body = """__shared__ unsigned s[64];
    s[t] = 1000;
    c.sync();
    s[t] = a[64 * blockIdx.x + t];
    BARRIER
    x[64 * blockIdx.x + t] = c.map_shared_rank(s, c.block_rank() ^ 1)[t];
    c.sync();"""
    wanted = A.reshape(4, 2, 64)[:, ::-1].reshape(8, 64)
    for barrier in ("c.sync();", ""):
        code = kernel(body.replace("BARRIER", barrier))
        found = run(code, X, A, grid=8, block=64, cluster=(2, 1, 1))[0]
        assert np.array_equal(found, wanted) is bool(barrier)


def test_threads_that_ended_are_not_waited_for() -> None:
    body = """if (t >= 32) return;
    auto token = c.barrier_arrive(); c.barrier_wait(token);
    x[64 * blockIdx.x + t] = 1;"""
    found = run(kernel(body), X, A, grid=8, block=64, cluster=(4, 1, 1))[0]
    assert found.sum() == 8 * 32


def test_a_grid_must_be_whole_clusters() -> None:
    with pytest.raises(KernelFault, match="cannot be divided"):
        run(kernel("x[0] = 1;"), X, A, grid=3, cluster=(2, 1, 1))


def test_clusters_in_a_cooperative_launch_are_unsupported() -> None:
    with pytest.raises(KernelFault) as caught:
        run(kernel("x[0] = 1;"), X, A, grid=4, cluster=(2, 1, 1), cooperative=True)
    assert caught.value.reason == "unsupported"


@pytest.mark.parametrize(
    "code",
    [
        "#define PAIRED __cluster_dims__(2)\n__global__ void PAIRED f(int *x) {}",
        "__global__ void __block_size__((64, 1, 1), (2, 1, 1)) f(int *x) {}",
        "template <int N> __global__ void __cluster_dims__(N) g(int *x) {}",
    ],
)
def test_a_cluster_size_that_cannot_be_read_is_unsupported(code: str) -> None:
    entry = EntryPoint("g", ("2",)) if "template" in code else EntryPoint("f")
    made = EmulatorCompiler().compile(code, [entry])
    assert isinstance(made, CompileFailure) and made.reason == "unsupported"


def test_a_cluster_size_in_a_comment_is_none() -> None:
    code = kernel("x[blockIdx.x] = c.num_blocks();").replace(
        "__global__", "// __cluster_dims__(2)\n__global__"
    )
    assert run(compiler_text(code), np.zeros(2, np.uint32), A, grid=2)[0].tolist() == [1, 1]
