// Inline PTX: matrix products of a warp group (wgmma). The runtime does the work (runtime/warpgroup.h), so that
// sides compile quickly. Included where a side has such an instruction.
#pragma once

#include "ptx_tensor.h"

namespace kcu_ptx
{

// A shape by its name is its number of columns.
#define KCU_SHAPE(N) m64n##N##k8 = N, m64n##N##k16 = N, m64n##N##k32 = N
enum {
    KCU_SHAPE(8), KCU_SHAPE(16), KCU_SHAPE(24), KCU_SHAPE(32), KCU_SHAPE(40), KCU_SHAPE(48), KCU_SHAPE(56),
    KCU_SHAPE(64), KCU_SHAPE(72), KCU_SHAPE(80), KCU_SHAPE(88), KCU_SHAPE(96), KCU_SHAPE(104), KCU_SHAPE(112),
    KCU_SHAPE(120), KCU_SHAPE(128), KCU_SHAPE(136), KCU_SHAPE(144), KCU_SHAPE(152), KCU_SHAPE(160), KCU_SHAPE(168),
    KCU_SHAPE(176), KCU_SHAPE(184), KCU_SHAPE(192), KCU_SHAPE(200), KCU_SHAPE(208), KCU_SHAPE(216), KCU_SHAPE(224),
    KCU_SHAPE(232), KCU_SHAPE(240), KCU_SHAPE(248), KCU_SHAPE(256)
};
enum {
    factor_f16 = KCU_F16, factor_bf16 = KCU_BF16, factor_tf32 = KCU_TF32, factor_e4m3 = KCU_E4M3,
    factor_e5m2 = KCU_E5M2, factor_s8 = KCU_S8, factor_u8 = KCU_U8
};
enum { sum_f32 = KCU_SUM_F32, sum_f16 = KCU_SUM_F16, sum_s32 = KCU_SUM_S32, sum_s32satfinite = KCU_SUM_S32 | 256 };

template <int N, int Left, int Right, int Sum, int ND>
KCU_API void wgmma_of(unsigned *const (&d)[ND], unsigned long long a, const unsigned *held, unsigned long long b,
                      bool adds, int scale_a, int scale_b, int across_a, int across_b)
{
    static_assert(ND == (Sum == sum_f16 ? N / 4 : N / 2), "a fragment of another size");
    const unsigned flags = (Sum & 256 ? KCU_SATURATES : 0) | (adds ? KCU_ADDS : 0) |
                           (scale_a < 0 ? KCU_NEGATES_LEFT : 0) | (scale_b < 0 ? KCU_NEGATES_RIGHT : 0) |
                           (across_a ? KCU_LEFT_ACROSS : 0) | (across_b ? KCU_RIGHT_ACROSS : 0);
    const KcuProduct asked = {N, Left, Right, Sum & 255, flags, a, b, held, d};
    kcu_multiply(&asked);
}
template <int N, int Left, int Right, int Sum, int ND>
KCU_API void wgmma(unsigned *const (&d)[ND], unsigned long long a, unsigned long long b, bool adds, int scale_a = 1,
                   int scale_b = 1, int across_a = 0, int across_b = 0)
{
    wgmma_of<N, Left, Right, Sum>(d, a, nullptr, b, adds, scale_a, scale_b, across_a, across_b);
}
template <int N, int Left, int Right, int Sum, int ND>
KCU_API void wgmma(unsigned *const (&d)[ND], const unsigned (&a)[4], unsigned long long b, bool adds, int scale_a = 1,
                   int scale_b = 1, int across_b = 0)
{
    wgmma_of<N, Left, Right, Sum>(d, 0, a, b, adds, scale_a, scale_b, 0, across_b);
}

KCU_API void wgmma_fence() { kcu_fence_products(); }
KCU_API void wgmma_commit() { kcu_commit_products(); }
KCU_API void wgmma_wait(unsigned batches_left) { kcu_finish_products(batches_left); }

} // namespace kcu_ptx
