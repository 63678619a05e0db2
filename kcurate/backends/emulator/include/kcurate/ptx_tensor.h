// Inline PTX: matrices of a warp. Source: PTX ISA, "Matrix Fragments for mma.m16n8k*", "ldmatrix".
//
// Products are summed in the order of k, in float (int for integers, double for none).
#pragma once

#include "ptx_memory.h"

namespace kcu_ptx
{

struct tf32 {};
struct e4m3 {};
struct e5m2 {};

// One element out of the bits of a 32-bit register.
template <class T> struct element {
    enum { bits = 8 * sizeof(T) };
    static int value(unsigned x) { return T(x); }
};
template <> struct element<__half> {
    enum { bits = 16 };
    static float value(unsigned x) { return kcu_decode_half((unsigned short)x); }
};
template <> struct element<__nv_bfloat16> {
    enum { bits = 16 };
    static float value(unsigned x) { return kcu_decode_bfloat16((unsigned short)x); }
};
template <> struct element<tf32> {
    enum { bits = 32 };
    static float value(unsigned x) { return kcu_bits<float>(x & 0xFFFFE000u); }
};
template <> struct element<e4m3> {
    enum { bits = 8 };
    static float value(unsigned x) { return decode_small<4, 3>(x & 0xFF); }
};
template <> struct element<e5m2> {
    enum { bits = 8 };
    static float value(unsigned x) { return decode_small<5, 2>(x & 0xFF); }
};

// The accumulator: element i of a lane's four, in registers of 32 bits.
KCU_API float sum_of(float *, const unsigned *c, int i) { return kcu_bits<float>(c[i]); }
KCU_API int sum_of(int *, const unsigned *c, int i) { return int(c[i]); }
KCU_API float sum_of(__half *, const unsigned *c, int i)
{
    return kcu_decode_half((unsigned short)(c[i / 2] >> 16 * (i % 2)));
}
KCU_API void keep_sum(float *, unsigned *d, int i, float sum) { d[i] = kcu_bits<unsigned>(sum); }
KCU_API void keep_sum(int *, unsigned *d, int i, int sum) { d[i] = unsigned(sum); }
KCU_API void keep_sum(__half *, unsigned *d, int i, float sum)
{
    const unsigned shift = 16 * (i % 2);
    d[i / 2] = (d[i / 2] & ~(0xFFFFu << shift)) | unsigned(kcu_encode_half(sum)) << shift;
}
template <class T> struct sum_registers { enum { count = 4 }; };
template <> struct sum_registers<__half> { enum { count = 2 }; };

// D = A B + C with A 16 x K by rows and B K x 8 by columns. In a register of E elements, lane 4 g + t holds of
// A the columns E t.. of row g (odd registers: g + 8; from the third on: 4 E columns further), of B the rows
// E t.. of column g (the second register: 4 E rows further).
template <int K, class A, class B, class C, class D, int ND, int NA, int NB, int NC>
KCU_API void mma(unsigned *const (&d)[ND], const unsigned (&a)[NA], const unsigned (&b)[NB], const unsigned (&c)[NC])
{
    const int E = 32 / element<A>::bits;
    static_assert(int(element<A>::bits) == int(element<B>::bits), "both factors have one size");
    static_assert(NA * E * 32 == 16 * K && NB * E * 32 == 8 * K, "a fragment of another size");
    static_assert(NC == sum_registers<C>::count && ND == sum_registers<D>::count, "a fragment of another size");
    unsigned mine[NA + NB];
    for (int i = 0; i < NA; i++) mine[i] = a[i];
    for (int i = 0; i < NB; i++) mine[NA + i] = b[i];
    KcuMeet *lanes = kcu_meet(~0u, KCU_TENSOR, (unsigned long long)mine);
    unsigned sums[ND] = {};
    for (int i = 0; i < 4; i++) {
        const int row = int(kcu_lane / 4) + 8 * (i / 2), column = int(kcu_lane % 4) * 2 + i % 2;
        auto sum = sum_of((C *)nullptr, c, i);
        for (int k = 0; k < K; k++) {
            const int lane = k % (4 * E) / E, part = k / (4 * E), shift = k % E * element<A>::bits;
            const unsigned *left = (const unsigned *)lanes->value[row % 8 * 4 + lane];
            const unsigned *right = (const unsigned *)lanes->value[column * 4 + lane];
            sum += element<A>::value(left[row / 8 + 2 * part] >> shift) *
                   element<B>::value(right[NA + part] >> shift);
        }
        keep_sum((D *)nullptr, sums, i, sum);
    }
    kcu_leave(kcu_meet(~0u, KCU_TENSOR, 0)); // until every lane has read
    kcu_leave(lanes);
    for (int i = 0; i < ND; i++) *d[i] = sums[i];
}
#define KCU_PTX_MMA(SHAPE, K)                                                                                \
    template <class A, class B, class C, class D, int ND, int NA, int NB, int NC>                            \
    KCU_API void mma_##SHAPE(unsigned *const (&d)[ND], const unsigned (&a)[NA], const unsigned (&b)[NB],     \
                             const unsigned (&c)[NC])                                                        \
    {                                                                                                        \
        mma<K, A, B, C, D>(d, a, b, c);                                                                      \
    }                                                                                                        \
    template <class A, class B, class C, class D, int ND, int NA, int NC>                                    \
    KCU_API void mma_##SHAPE(unsigned *const (&d)[ND], const unsigned (&a)[NA], unsigned b,                  \
                             const unsigned (&c)[NC])                                                        \
    {                                                                                                        \
        mma<K, A, B, C, D>(d, a, {b}, c);                                                                    \
    }
KCU_PTX_MMA(m16n8k4, 4)
KCU_PTX_MMA(m16n8k8, 8)
KCU_PTX_MMA(m16n8k16, 16)
KCU_PTX_MMA(m16n8k32, 32)

// 8 x 8 matrices of 16-bit elements: lane 8 j + r gives the address of row r of matrix j; lane 4 r + t holds
// the elements 2 t and 2 t + 1 of row r (transposed: of column r).
template <int N> KCU_API const char *matrix_row(const KcuMeet *lanes, int matrix, int row)
{
    const char *place = (const char *)lanes->value[8 * matrix + row];
    check_access(place, 16);
    return place;
}
template <bool Transposed, int N> KCU_API void load_some(const char *row, unsigned *const (&to)[N])
{
    KcuMeet *lanes = kcu_meet(~0u, KCU_TENSOR, (unsigned long long)row);
    const int r = int(kcu_lane / 4), t = int(kcu_lane % 4);
    for (int j = 0; j < N; j++) {
        unsigned short two[2];
        for (int e = 0; e < 2; e++)
            __builtin_memcpy(&two[e],
                             Transposed ? matrix_row<N>(lanes, j, 2 * t + e) + 2 * r
                                        : matrix_row<N>(lanes, j, r) + 2 * (2 * t + e),
                             2);
        *to[j] = two[0] | unsigned(two[1]) << 16;
    }
    kcu_leave(kcu_meet(~0u, KCU_TENSOR, 0));
    kcu_leave(lanes);
}
template <int N> KCU_API void load_matrices(const char *row, unsigned *const (&to)[N]) { load_some<false>(row, to); }
template <int N> KCU_API void load_matricestrans(const char *row, unsigned *const (&to)[N])
{
    load_some<true>(row, to);
}
template <bool Transposed, int N> KCU_API void store_some(char *row, const unsigned (&from)[N])
{
    KcuMeet *lanes = kcu_meet(~0u, KCU_TENSOR, (unsigned long long)row);
    const int r = int(kcu_lane / 4), t = int(kcu_lane % 4);
    for (int j = 0; j < N; j++)
        for (int e = 0; e < 2; e++) {
            const unsigned short one = (unsigned short)(from[j] >> 16 * e);
            char *place = const_cast<char *>(Transposed ? matrix_row<N>(lanes, j, 2 * t + e) + 2 * r
                                                        : matrix_row<N>(lanes, j, r) + 2 * (2 * t + e));
            __builtin_memcpy(place, &one, 2);
        }
    kcu_leave(kcu_meet(~0u, KCU_TENSOR, 0));
    kcu_leave(lanes);
}
template <int N> KCU_API void store_matrices(char *row, const unsigned (&from)[N]) { store_some<false>(row, from); }
template <int N> KCU_API void store_matricestrans(char *row, const unsigned (&from)[N])
{
    store_some<true>(row, from);
}
KCU_API unsigned transposed(unsigned a)
{
    KcuMeet *lanes = kcu_meet(~0u, KCU_TENSOR, a);
    const unsigned r = kcu_lane / 4, t = kcu_lane % 4;
    unsigned result = 0;
    for (unsigned e = 0; e < 2; e++) // row 2 t + e, column r of the matrix that the lanes hold
        result |= unsigned(lanes->value[(2 * t + e) * 4 + r / 2] >> 16 * (r % 2) & 0xFFFF) << 16 * e;
    kcu_leave(lanes);
    return result;
}

} // namespace kcu_ptx
