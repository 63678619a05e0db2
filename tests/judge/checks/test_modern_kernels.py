"""Whole kernels as written for Hopper: allowed, compiled, clean in the binary, and right if emulated."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import Program, run

from kcurate.backends.base import Compiled, EntryPoint, KernelFault
from kcurate.judge.checks import static
from kcurate.records import Side

# A 64 x 64 product of halves: one warp brings tiles by bulk copies, four multiply; two stages, mbarriers.
PIPELINE = r"""
#include <cuda_fp16.h>
#define K 128
#define STEP 32
__device__ __forceinline__ unsigned at(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void wait(unsigned bar, unsigned phase)
{
    asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
                 "@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}\n" :: "r"(bar), "r"(phase) : "memory");
}
__device__ __forceinline__ void arrive(unsigned bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" :: "r"(bar) : "memory");
}
extern "C" __global__ void __launch_bounds__(160) f(float *c, const half *a, const half *b)
{
    __shared__ alignas(128) half left[2][64 * STEP], right[2][64 * STEP];
    __shared__ alignas(8) unsigned long long full[2], empty[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(&full[i])), "r"(1));
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(&empty[i])), "r"(128));
        }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    if (warp == 4) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(24));
        for (int step = 0; step < K / STEP; step++) {
            const int s = step % 2;
            wait(at(&empty[s]), (step / 2 + 1) % 2);
            if (lane == 0)
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                    :: "r"(at(&full[s])), "r"(2 * 64 * STEP * 2) : "memory");
            __syncwarp();
            for (int row = lane; row < 128; row += 32) {
                half *to = row < 64 ? &left[s][row * STEP] : &right[s][(row - 64) * STEP];
                const half *from = (row < 64 ? a + row * K : b + (row - 64) * K) + step * STEP;
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                    " [%0], [%1], %2, [%3];"
                    :: "r"(at(to)), "l"(from), "n"(STEP * 2), "r"(at(&full[s])) : "memory");
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(240));
    float sum[8][4] = {};
    for (int step = 0; step < K / STEP; step++) {
        const int s = step % 2;
        wait(at(&full[s]), step / 2 % 2);
        for (int k = 0; k < STEP; k += 16) {
            unsigned x[4], y[2];
            const half *row = &left[s][(16 * warp + lane % 16) * STEP + k + lane / 16 * 8];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at(row)));
            for (int n = 0; n < 8; n++) {
                const half *column = &right[s][(8 * n + lane % 8) * STEP + k + lane / 8 % 2 * 8];
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                    : "=r"(y[0]), "=r"(y[1]) : "r"(at(column)));
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                    "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                    : "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3])
                    : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
            }
        }
        arrive(at(&empty[s]));
    }
    for (int n = 0; n < 8; n++)
        for (int i = 0; i < 4; i++)
            c[(16 * warp + lane / 4 + i / 2 * 8) * 64 + 8 * n + lane % 4 * 2 + i % 2] = sum[n][i];
}
"""
WGMMA = r"""
#include <cuda_fp16.h>
__device__ unsigned long long descriptor(const void *p)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(p));
    return (address & 0x3FFFFull) >> 4 | 8ull << 16 | 16ull << 32;
}
extern "C" __global__ void __launch_bounds__(128) __cluster_dims__(2, 1, 1) f(float *c, const half *a, int n)
{
    __shared__ alignas(128) half left[64 * 16], right[8 * 16];
    float d[4] = {};
    unsigned rank, remote;
    for (int i = threadIdx.x; i < 64 * 16; i += 128) left[i] = a[i];
    for (int i = threadIdx.x; i < 8 * 16; i += 128) right[i] = a[i];
    assert(n > 0);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(descriptor(left)), "l"(descriptor(right)), "r"(1));
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" :: "n"(0) : "memory");
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote)
        : "r"(static_cast<unsigned>(__cvta_generic_to_shared(left))), "r"(rank ^ 1));
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    for (int i = 0; i < 4; i++) c[threadIdx.x * 4 + i] = d[i] + remote;
}
"""


@pytest.mark.parametrize("code", [PIPELINE, WGMMA], ids=["pipeline", "wgmma"])
def test_hopper_kernels_pass_every_check(code: str) -> None:
    compiler = pytest.importorskip("kcurate.backends.cuda.compiler").CudaCompiler()
    side = Side(code, ())
    assert static.check_source(side) == ()
    made = compiler.compile(code, [EntryPoint("f")])
    assert isinstance(made, Compiled), made.log
    assert static.check_binary(made, side) == ()


def test_a_warp_specialised_product_is_right_on_the_emulator() -> None:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((64, 128)).astype(np.float16) for _ in range(2))
    found = run(PIPELINE, np.zeros((64, 64), np.float32), a, b, block=160)[0]
    assert np.allclose(found, a.astype(np.float64) @ b.astype(np.float64).T, atol=1e-4)


@pytest.mark.parametrize(
    "mistake",
    [
        ("wait(at(&full[s]), step / 2 % 2);", ""),
        ("wait(at(&empty[s]), (step / 2 + 1) % 2);", ""),
        ("{%8, %9}, {%0", "{%9, %8}, {%0"),
        ("x4.shared", "x4.trans.shared"),
    ],
)
def test_mistakes_in_it_show(mistake: tuple[str, str]) -> None:
    assert mistake[0] in PIPELINE
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((64, 128)).astype(np.float16) for _ in range(2))
    try:
        side = Program(PIPELINE.replace(*mistake), limit_s=1.0)
        found = side.run(np.zeros((64, 64), np.float32), a, b, block=160)[0]
    except KernelFault as fault:  # it waits for a phase that has gone by
        assert fault.reason == "timeout"
    else:
        assert not np.allclose(found, a.astype(np.float64) @ b.astype(np.float64).T, atol=1e-2)
