// Intrinsics on the two halfwords or four bytes of a word, and the fused minima and maxima of integers (DPX).
// Source: CUDA Math API Reference Manual, "SIMD Intrinsics"; CUDA C++ Programming Guide, "Dynamic Programming
// eXtension (DPX) Instructions".
#pragma once

#include "intrinsics.h"

KCU_API int kcu_clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

// For every part: `a` and `b` (and `sa`, `sb`: the same as signed numbers), a result of which the lowest BITS
// bits are kept.
#define KCU_PARTS(NAME, BITS, RESULT)                                                                        \
    KCU_API unsigned NAME(unsigned x, unsigned y)                                                            \
    {                                                                                                        \
        const unsigned all = (1u << BITS) - 1;                                                               \
        unsigned result = 0;                                                                                 \
        for (int at = 0; at < 32; at += BITS) {                                                              \
            const int a = int(x >> at & all), b = int(y >> at & all);                                        \
            const int sa = int(unsigned(a) << (32 - BITS)) >> (32 - BITS);                                   \
            const int sb = int(unsigned(b) << (32 - BITS)) >> (32 - BITS);                                   \
            (void)sa, (void)sb;                                                                              \
            result |= (unsigned(RESULT) & all) << at;                                                        \
        }                                                                                                    \
        return result;                                                                                       \
    }
#define KCU_ONE(NAME, BITS)                                                                                  \
    KCU_API unsigned __##NAME(unsigned x) { return kcu_##NAME(x, 0); }
#define KCU_SUM(NAME, BITS, TERM)                                                                            \
    KCU_API unsigned NAME(unsigned x, unsigned y)                                                            \
    {                                                                                                        \
        const unsigned parts = TERM(x, y);                                                                   \
        unsigned sum = 0;                                                                                    \
        for (int at = 0; at < 32; at += BITS) sum += parts >> at & ((1u << BITS) - 1);                       \
        return sum;                                                                                          \
    }
#define KCU_COMPARISON(NAME, N, BITS, TEST)                                                                  \
    KCU_PARTS(__vcmp##NAME##N, BITS, (TEST) ? ~0u : 0u)                                                      \
    KCU_PARTS(__vset##NAME##N, BITS, (TEST) ? 1u : 0u)
#define KCU_SIMD(N, BITS)                                                                                    \
    KCU_PARTS(__vadd##N, BITS, a + b)                                                                        \
    KCU_PARTS(__vsub##N, BITS, a - b)                                                                        \
    KCU_PARTS(__vaddss##N, BITS, kcu_clamp(sa + sb, -(1 << (BITS - 1)), (1 << (BITS - 1)) - 1))              \
    KCU_PARTS(__vsubss##N, BITS, kcu_clamp(sa - sb, -(1 << (BITS - 1)), (1 << (BITS - 1)) - 1))              \
    KCU_PARTS(__vaddus##N, BITS, kcu_clamp(a + b, 0, (1 << BITS) - 1))                                       \
    KCU_PARTS(__vsubus##N, BITS, kcu_clamp(a - b, 0, (1 << BITS) - 1))                                       \
    KCU_PARTS(__vavgs##N, BITS, (sa + sb + (sa + sb >= 0)) >> 1)                                             \
    KCU_PARTS(__vavgu##N, BITS, (a + b + 1) >> 1)                                                            \
    KCU_PARTS(__vhaddu##N, BITS, (a + b) >> 1)                                                               \
    KCU_PARTS(__vmaxs##N, BITS, sa > sb ? sa : sb)                                                           \
    KCU_PARTS(__vmins##N, BITS, sa < sb ? sa : sb)                                                           \
    KCU_PARTS(__vmaxu##N, BITS, a > b ? a : b)                                                               \
    KCU_PARTS(__vminu##N, BITS, a < b ? a : b)                                                               \
    KCU_PARTS(__vabsdiffu##N, BITS, a > b ? a - b : b - a)                                                   \
    KCU_PARTS(__vabsdiffs##N, BITS, sa > sb ? sa - sb : sb - sa)                                             \
    KCU_PARTS(kcu_vabs##N, BITS, sa < 0 ? -sa : sa)                                                       \
    KCU_PARTS(kcu_vabsss##N, BITS, kcu_clamp(sa < 0 ? -sa : sa, 0, (1 << (BITS - 1)) - 1))                \
    KCU_PARTS(kcu_vneg##N, BITS, -sa)                                                                     \
    KCU_PARTS(kcu_vnegss##N, BITS, kcu_clamp(-sa, -(1 << (BITS - 1)), (1 << (BITS - 1)) - 1))             \
    KCU_ONE(vabs##N, BITS)                                                                                 \
    KCU_ONE(vabsss##N, BITS)                                                                               \
    KCU_ONE(vneg##N, BITS)                                                                                 \
    KCU_ONE(vnegss##N, BITS)                                                                               \
    KCU_SUM(__vsads##N, BITS, __vabsdiffs##N)                                                                \
    KCU_SUM(__vsadu##N, BITS, __vabsdiffu##N)                                                                \
    KCU_COMPARISON(eq, N, BITS, a == b)                                                                      \
    KCU_COMPARISON(ne, N, BITS, a != b)                                                                      \
    KCU_COMPARISON(ges, N, BITS, sa >= sb)                                                                   \
    KCU_COMPARISON(geu, N, BITS, a >= b)                                                                     \
    KCU_COMPARISON(gts, N, BITS, sa > sb)                                                                    \
    KCU_COMPARISON(gtu, N, BITS, a > b)                                                                      \
    KCU_COMPARISON(les, N, BITS, sa <= sb)                                                                   \
    KCU_COMPARISON(leu, N, BITS, a <= b)                                                                     \
    KCU_COMPARISON(lts, N, BITS, sa < sb)                                                                    \
    KCU_COMPARISON(ltu, N, BITS, a < b)
KCU_SIMD(2, 16)
KCU_SIMD(4, 8)

#define KCU_DPX(T, SUFFIX)                                                                                   \
    KCU_API T __vimax3_##SUFFIX(T a, T b, T c) { return max(max(a, b), c); }                                 \
    KCU_API T __vimin3_##SUFFIX(T a, T b, T c) { return min(min(a, b), c); }                                 \
    KCU_API T __viaddmax_##SUFFIX(T a, T b, T c) { return max(T(a + b), c); }                                \
    KCU_API T __viaddmin_##SUFFIX(T a, T b, T c) { return min(T(a + b), c); }
KCU_DPX(int, s32)
KCU_DPX(unsigned, u32)
KCU_API int __vimax3_s32_relu(int a, int b, int c) { return max(__vimax3_s32(a, b, c), 0); }
KCU_API int __vimin3_s32_relu(int a, int b, int c) { return max(__vimin3_s32(a, b, c), 0); }
KCU_API int __vimax_s32_relu(int a, int b) { return max(max(a, b), 0); }
KCU_API int __vimin_s32_relu(int a, int b) { return max(min(a, b), 0); }
KCU_API int __viaddmax_s32_relu(int a, int b, int c) { return max(__viaddmax_s32(a, b, c), 0); }
KCU_API int __viaddmin_s32_relu(int a, int b, int c) { return max(__viaddmin_s32(a, b, c), 0); }

#define KCU_DPX_PAIR(SIGN, SUFFIX)                                                                           \
    KCU_API unsigned __vimax3_##SUFFIX(unsigned a, unsigned b, unsigned c)                                   \
    {                                                                                                        \
        return __vmax##SIGN##2(__vmax##SIGN##2(a, b), c);                                                    \
    }                                                                                                        \
    KCU_API unsigned __vimin3_##SUFFIX(unsigned a, unsigned b, unsigned c)                                   \
    {                                                                                                        \
        return __vmin##SIGN##2(__vmin##SIGN##2(a, b), c);                                                    \
    }                                                                                                        \
    KCU_API unsigned __viaddmax_##SUFFIX(unsigned a, unsigned b, unsigned c)                                 \
    {                                                                                                        \
        return __vmax##SIGN##2(__vadd2(a, b), c);                                                            \
    }                                                                                                        \
    KCU_API unsigned __viaddmin_##SUFFIX(unsigned a, unsigned b, unsigned c)                                 \
    {                                                                                                        \
        return __vmin##SIGN##2(__vadd2(a, b), c);                                                            \
    }
KCU_DPX_PAIR(s, s16x2)
KCU_DPX_PAIR(u, u16x2)
KCU_API unsigned __vimax3_s16x2_relu(unsigned a, unsigned b, unsigned c) { return __vmaxs2(__vimax3_s16x2(a, b, c), 0u); }
KCU_API unsigned __viaddmax_s16x2_relu(unsigned a, unsigned b, unsigned c)
{
    return __vmaxs2(__viaddmax_s16x2(a, b, c), 0u);
}

KCU_API unsigned __vimin3_s16x2_relu(unsigned a, unsigned b, unsigned c) { return __vmaxs2(__vimin3_s16x2(a, b, c), 0u); }
KCU_API unsigned __vimax_s16x2_relu(unsigned a, unsigned b) { return __vmaxs2(__vmaxs2(a, b), 0u); }
KCU_API unsigned __vimin_s16x2_relu(unsigned a, unsigned b) { return __vmaxs2(__vmins2(a, b), 0u); }
KCU_API unsigned __viaddmin_s16x2_relu(unsigned a, unsigned b, unsigned c)
{
    return __vmaxs2(__viaddmin_s16x2(a, b, c), 0u);
}

KCU_API int __vibmax_s32(int a, int b, bool *first) { return *first = a >= b, max(a, b); }
KCU_API int __vibmin_s32(int a, int b, bool *first) { return *first = a <= b, min(a, b); }
KCU_API unsigned __vibmax_u32(unsigned a, unsigned b, bool *first) { return *first = a >= b, max(a, b); }
KCU_API unsigned __vibmin_u32(unsigned a, unsigned b, bool *first) { return *first = a <= b, min(a, b); }
