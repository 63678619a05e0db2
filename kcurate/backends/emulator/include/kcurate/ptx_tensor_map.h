// Inline PTX: copies of boxes that tensor maps describe. Included only where code has such a copy.
// Source: PTX ISA, "Data Movement and Conversion Instructions: Tensor copy".
#pragma once

#include "ptx_memory.h"
#include "tensor_map.h"

namespace kcu_ptx
{

template <int N> KCU_API void box_load(char *to, const char *map, const int (&at)[N], char *barrier)
{
    kcu_box_load(to, map, at, N, barrier_at(barrier));
}
// Into the same place of every block of the cluster that the mask names.
template <int N>
KCU_API void box_load_to_many(char *to, const char *map, const int (&at)[N], char *barrier, unsigned mask)
{
    for (unsigned rank = 0; mask >> rank; rank++)
        if (mask >> rank & 1)
            box_load((char *)kcu_map_shared(to, rank), map, at, (char *)kcu_map_shared(barrier, rank));
}
template <int N> KCU_API void box_store(const char *map, const int (&at)[N], const char *from)
{
    kcu_box_store(map, at, N, from, nullptr);
}

[[noreturn]] KCU_API void no_reduction()
{
    kcu_fault(KCU_LAUNCH, "a reduction that the type of its tensor map does not have");
}
#define KCU_PTX_COMBINE(NAME, NEW)                                                                           \
    template <class T> KCU_API void combine_##NAME(char *to, const char *from)                               \
    {                                                                                                        \
        T old, value;                                                                                        \
        __builtin_memcpy(&old, to, sizeof old);                                                              \
        __builtin_memcpy(&value, from, sizeof value);                                                        \
        old = T(NEW);                                                                                        \
        __builtin_memcpy(to, &old, sizeof old);                                                              \
    }
KCU_PTX_COMBINE(add, old + value)
KCU_PTX_COMBINE(min, lesser(old, value))
KCU_PTX_COMBINE(max, greater(old, value))
KCU_PTX_COMBINE(and, old &value)
KCU_PTX_COMBINE(or, old | value)
KCU_PTX_COMBINE(xor, old ^ value)
KCU_PTX_COMBINE(inc, old >= value ? 0 : old + 1)
KCU_PTX_COMBINE(dec, old == 0 || old > value ? value : old - 1)

// Which types each has: PTX ISA, cp.reduce.async.bulk (of bits, and to global memory).
#define KCU_PTX_REDUCE(NAME, ...)                                                                            \
    template <int N> KCU_API void box_reduce_##NAME(const char *map, const int (&at)[N], const char *from)   \
    {                                                                                                        \
        KcuCombine combine = nullptr;                                                                        \
        switch (kcu_tensor_map(map).type) { __VA_ARGS__ default: no_reduction(); }                           \
        kcu_box_store(map, at, N, from, combine);                                                            \
    }
#define KCU_PTX_FOR(TYPE, T, NAME) case TYPE: combine = combine_##NAME<T>; break;
#define KCU_PTX_BITS(NAME) KCU_PTX_FOR(KCU_MAP_U32, unsigned, NAME) KCU_PTX_FOR(KCU_MAP_U64, unsigned long long, NAME)
#define KCU_PTX_INTEGERS(NAME) KCU_PTX_BITS(NAME) KCU_PTX_FOR(KCU_MAP_S32, int, NAME)
#define KCU_PTX_HALVES(NAME) KCU_PTX_FOR(KCU_MAP_F16, __half, NAME) KCU_PTX_FOR(KCU_MAP_BF16, __nv_bfloat16, NAME)
KCU_PTX_REDUCE(add, KCU_PTX_INTEGERS(add) KCU_PTX_HALVES(add) KCU_PTX_FOR(KCU_MAP_F32, float, add)
                        KCU_PTX_FOR(KCU_MAP_F64, double, add))
KCU_PTX_REDUCE(min, KCU_PTX_INTEGERS(min) KCU_PTX_HALVES(min))
KCU_PTX_REDUCE(max, KCU_PTX_INTEGERS(max) KCU_PTX_HALVES(max))
KCU_PTX_REDUCE(inc, KCU_PTX_FOR(KCU_MAP_U32, unsigned, inc))
KCU_PTX_REDUCE(dec, KCU_PTX_FOR(KCU_MAP_U32, unsigned, dec))
KCU_PTX_REDUCE(and, KCU_PTX_BITS(and) KCU_PTX_FOR(KCU_MAP_S32, int, and))
KCU_PTX_REDUCE(or, KCU_PTX_BITS(or) KCU_PTX_FOR(KCU_MAP_S32, int, or))
KCU_PTX_REDUCE(xor, KCU_PTX_BITS(xor) KCU_PTX_FOR(KCU_MAP_S32, int, xor))

} // namespace kcu_ptx
