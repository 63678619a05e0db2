// Intrinsics of a warp: shuffles, votes, matches, reductions. All lanes of the mask that still run meet
// first. Source: CUDA C++ Programming Guide, "Warp Shuffle Functions" and the sections around it.
#pragma once

#include "atomics.h"

// What a lane reads from one that is not there: nothing that a correct kernel uses. Large numbers in all types, of
// either sign, so that they change sums, products and extrema; no NaN, which extrema pass over.
template <class T> KCU_API T kcu_absent()
{
    const unsigned part = kcu_lane & 1 ? 0xF34AF34A : 0x734AF34A;
    const unsigned parts[] = {part, part};
    T value;
    __builtin_memcpy(&value, parts, sizeof value);
    return value;
}

template <class T> KCU_API T kcu_exchange(unsigned mask, T value, unsigned from)
{
    static_assert(sizeof(T) <= 8, "shuffles take values of up to 8 bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    KcuMeet *meet = kcu_meet(mask, KCU_SHUFFLE, bits);
    T result = kcu_absent<T>();
    if (meet->arrived >> (from & 31) & 1) __builtin_memcpy(&result, &meet->value[from & 31], sizeof(T));
    kcu_leave(meet);
    return result;
}

template <class T> KCU_API T kcu_shfl(unsigned mask, T value, int from, int width)
{
    return kcu_exchange(mask, value, (kcu_lane & ~(width - 1)) | (from & (width - 1)));
}
template <class T> KCU_API T kcu_shfl_up(unsigned mask, T value, unsigned delta, int width)
{
    const unsigned rank = kcu_lane & (width - 1);
    return kcu_exchange(mask, value, rank < delta ? kcu_lane : kcu_lane - delta);
}
template <class T> KCU_API T kcu_shfl_down(unsigned mask, T value, unsigned delta, int width)
{
    const unsigned rank = kcu_lane & (width - 1);
    return kcu_exchange(mask, value, rank + delta < unsigned(width) ? kcu_lane + delta : kcu_lane);
}
template <class T> KCU_API T kcu_shfl_xor(unsigned mask, T value, int flip, int width)
{
    const unsigned from = kcu_lane ^ flip;
    const bool beyond = (from & ~(width - 1)) > (kcu_lane | (width - 1));
    return kcu_exchange(mask, value, beyond ? kcu_lane : from);
}

// The types that CUDA has overloads for; smaller integers become an int.
#define KCU_LANE_TYPES(F) F(int) F(unsigned) F(long) F(unsigned long) F(long long) F(unsigned long long) F(float) F(double)
#define KCU_SHUFFLE_OF(T, NAME, FROM)                                                                        \
    KCU_API T __shfl##NAME##_sync(unsigned mask, T value, FROM, int width = 32)                              \
    {                                                                                                        \
        return kcu_shfl##NAME(mask, value, from, width);                                                     \
    }
#define KCU_SHUFFLES(T)                                                                                      \
    KCU_SHUFFLE_OF(T, , int from)                                                                            \
    KCU_SHUFFLE_OF(T, _up, unsigned from)                                                                    \
    KCU_SHUFFLE_OF(T, _down, unsigned from)                                                                  \
    KCU_SHUFFLE_OF(T, _xor, int from)
KCU_LANE_TYPES(KCU_SHUFFLES)

KCU_API void __syncwarp(unsigned mask = ~0u) { kcu_leave(kcu_meet(mask, KCU_SYNC, 0)); }

KCU_API unsigned kcu_vote(unsigned mask, bool predicate, unsigned *arrived)
{
    KcuMeet *meet = kcu_meet(mask, KCU_VOTE, predicate);
    unsigned result = 0;
    for (unsigned lanes = meet->arrived; lanes; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        result |= unsigned(meet->value[lane]) << lane;
    }
    *arrived = meet->arrived;
    kcu_leave(meet);
    return result;
}
KCU_API unsigned __ballot_sync(unsigned mask, int predicate)
{
    unsigned arrived;
    return kcu_vote(mask, predicate != 0, &arrived);
}
KCU_API int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
KCU_API int __all_sync(unsigned mask, int predicate)
{
    unsigned arrived;
    return kcu_vote(mask, predicate != 0, &arrived) == arrived;
}
KCU_API int __uni_sync(unsigned mask, int predicate)
{
    unsigned arrived;
    const unsigned votes = kcu_vote(mask, predicate != 0, &arrived);
    return votes == 0 || votes == arrived;
}

template <class T> KCU_API unsigned kcu_match(unsigned mask, T value, unsigned *arrived)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "matches compare 4 or 8 bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    KcuMeet *meet = kcu_meet(mask, KCU_MATCH, bits);
    unsigned result = 0;
    for (unsigned lanes = meet->arrived; lanes; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        if (meet->value[lane] == bits) result |= 1u << lane;
    }
    *arrived = meet->arrived;
    kcu_leave(meet);
    return result;
}
#define KCU_MATCHES(T)                                                                                       \
    KCU_API unsigned __match_any_sync(unsigned mask, T value)                                                \
    {                                                                                                        \
        unsigned arrived;                                                                                    \
        return kcu_match(mask, value, &arrived);                                                             \
    }                                                                                                        \
    KCU_API unsigned __match_all_sync(unsigned mask, T value, int *all)                                      \
    {                                                                                                        \
        unsigned arrived;                                                                                    \
        *all = kcu_match(mask, value, &arrived) == arrived;                                                  \
        return *all ? mask : 0;                                                                              \
    }
KCU_LANE_TYPES(KCU_MATCHES)

#define KCU_WARP_REDUCE(NAME, T, START, STEP)                                                                \
    KCU_API T NAME(unsigned mask, T value)                                                                   \
    {                                                                                                        \
        KcuMeet *meet = kcu_meet(mask, KCU_REDUCE, (unsigned long long)(unsigned)value);                     \
        T all = START;                                                                                       \
        for (unsigned lanes = meet->arrived; lanes; lanes &= lanes - 1) {                                    \
            const T one = T((unsigned)meet->value[__builtin_ctz(lanes)]);                                    \
            all = STEP;                                                                                      \
        }                                                                                                    \
        kcu_leave(meet);                                                                                     \
        return all;                                                                                          \
    }
KCU_WARP_REDUCE(__reduce_add_sync, unsigned, 0, all + one)
KCU_WARP_REDUCE(__reduce_add_sync, int, 0, all + one)
KCU_WARP_REDUCE(__reduce_min_sync, unsigned, value, one < all ? one : all)
KCU_WARP_REDUCE(__reduce_min_sync, int, value, one < all ? one : all)
KCU_WARP_REDUCE(__reduce_max_sync, unsigned, value, one > all ? one : all)
KCU_WARP_REDUCE(__reduce_max_sync, int, value, one > all ? one : all)
KCU_WARP_REDUCE(__reduce_and_sync, unsigned, ~0u, all &one)
KCU_WARP_REDUCE(__reduce_or_sync, unsigned, 0, all | one)
KCU_WARP_REDUCE(__reduce_xor_sync, unsigned, 0, all ^ one)

// The lanes that run together here, and the intrinsics of before CUDA 9, which mean those lanes.
#define __activemask() kcu_converge(~__COUNTER__)
#define __shfl(...) __shfl_sync(kcu_converge(__COUNTER__), __VA_ARGS__)
#define __shfl_up(...) __shfl_up_sync(kcu_converge(__COUNTER__), __VA_ARGS__)
#define __shfl_down(...) __shfl_down_sync(kcu_converge(__COUNTER__), __VA_ARGS__)
#define __shfl_xor(...) __shfl_xor_sync(kcu_converge(__COUNTER__), __VA_ARGS__)
#define __ballot(p) __ballot_sync(kcu_converge(__COUNTER__), p)
#define __any(p) __any_sync(kcu_converge(__COUNTER__), p)
#define __all(p) __all_sync(kcu_converge(__COUNTER__), p)
