// Atomics: threads of the emulator take turns, so an ordinary read and write is one.
// Source: CUDA C++ Programming Guide, "Atomic Functions".
#pragma once

#include "intrinsics.h"

// An atomic that changes nothing, as the addition of zero, reaches its place as well: without the read the compiler
// removes it. What lies behind a buffer keeps its value then, so its end is checked as that of a copy.
KCU_API void kcu_touch(const void *place, size_t bytes)
{
    kcu_check_copy(place, nullptr, bytes, 0);
    (void)*(const volatile char *)place;
}

#define KCU_ATOMIC_IN(NAME, T, NEW, IN_BLOCK)                                                                \
    KCU_API T NAME(T *address, T value)                                                                      \
    {                                                                                                        \
        kcu_spin_at(address, 0, IN_BLOCK);                                                                   \
        kcu_touch(address, sizeof(T));                                                                       \
        const T old = *address;                                                                              \
        *address = NEW;                                                                                      \
        return old;                                                                                          \
    }
#define KCU_ATOMIC(NAME, T, NEW)                                                                             \
    KCU_ATOMIC_IN(NAME, T, NEW, false)                                                                       \
    KCU_ATOMIC_IN(NAME##_block, T, NEW, true)                                                                \
    KCU_API T NAME##_system(T *address, T value) { return NAME(address, value); }
#define KCU_ATOMIC_ALL(NAME, NEW)                                                                            \
    KCU_ATOMIC(NAME, int, NEW)                                                                               \
    KCU_ATOMIC(NAME, unsigned, NEW)                                                                          \
    KCU_ATOMIC(NAME, unsigned long long, NEW)
KCU_ATOMIC_ALL(atomicAdd, old + value)
KCU_ATOMIC(atomicAdd, float, old + value)
KCU_ATOMIC(atomicAdd, double, old + value)
KCU_ATOMIC(atomicSub, int, old - value)
KCU_ATOMIC(atomicSub, unsigned, old - value)
KCU_ATOMIC_ALL(atomicMin, value < old ? value : old)
KCU_ATOMIC(atomicMin, long long, value < old ? value : old)
KCU_ATOMIC_ALL(atomicMax, value > old ? value : old)
KCU_ATOMIC(atomicMax, long long, value > old ? value : old)
KCU_ATOMIC_ALL(atomicExch, value)
KCU_ATOMIC(atomicExch, float, value)
KCU_ATOMIC_ALL(atomicAnd, old &value)
KCU_ATOMIC(atomicAnd, long long, old &value)
KCU_ATOMIC_ALL(atomicOr, old | value)
KCU_ATOMIC(atomicOr, long long, old | value)
KCU_ATOMIC_ALL(atomicXor, old ^ value)
KCU_ATOMIC(atomicXor, long long, old ^ value)
KCU_ATOMIC(atomicInc, unsigned, old >= value ? 0u : old + 1)
KCU_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)

// Those with an order and a scope.
enum {
    __NV_ATOMIC_RELAXED,
    __NV_ATOMIC_CONSUME,
    __NV_ATOMIC_ACQUIRE,
    __NV_ATOMIC_RELEASE,
    __NV_ATOMIC_ACQ_REL,
    __NV_ATOMIC_SEQ_CST
};
enum {
    __NV_THREAD_SCOPE_THREAD,
    __NV_THREAD_SCOPE_BLOCK,
    __NV_THREAD_SCOPE_CLUSTER,
    __NV_THREAD_SCOPE_DEVICE,
    __NV_THREAD_SCOPE_SYSTEM
};
KCU_API bool kcu_in_block(int scope) { return scope <= __NV_THREAD_SCOPE_BLOCK; }
template <class T> KCU_API T __nv_atomic_load_n(const T *address, int order, int scope = __NV_THREAD_SCOPE_SYSTEM)
{
    kcu_ask_at(address, order, kcu_in_block(scope));
    kcu_touch(address, sizeof(T));
    return *address;
}
template <class T, class V>
KCU_API void __nv_atomic_store_n(T *address, V value, int order, int scope = __NV_THREAD_SCOPE_SYSTEM)
{
    kcu_store_at(address, order, kcu_in_block(scope));
    kcu_touch(address, sizeof(T));
    *address = value;
}
#define KCU_ORDERED(NAME, NEW)                                                                               \
    template <class T, class V>                                                                              \
    KCU_API T NAME(T *address, V value, int order, int scope = __NV_THREAD_SCOPE_SYSTEM)                     \
    {                                                                                                        \
        kcu_spin_at(address, order, kcu_in_block(scope));                                                    \
        kcu_touch(address, sizeof(T));                                                                       \
        const T old = *address;                                                                              \
        *address = NEW;                                                                                      \
        return old;                                                                                          \
    }
KCU_ORDERED(__nv_atomic_exchange_n, value)
KCU_ORDERED(__nv_atomic_fetch_add, old + value)
KCU_ORDERED(__nv_atomic_fetch_sub, old - value)
KCU_ORDERED(__nv_atomic_fetch_and, old & value)
KCU_ORDERED(__nv_atomic_fetch_or, old | value)
KCU_ORDERED(__nv_atomic_fetch_xor, old ^ value)
KCU_ORDERED(__nv_atomic_fetch_min, T(value) < old ? T(value) : old)
KCU_ORDERED(__nv_atomic_fetch_max, T(value) > old ? T(value) : old)

#define KCU_CAS(NAME, T, IN_BLOCK)                                                                           \
    KCU_API T NAME(T *address, T compare, T value)                                                           \
    {                                                                                                        \
        kcu_spin_at(address, 0, IN_BLOCK);                                                                   \
        kcu_touch(address, sizeof(T));                                                                       \
        const T old = *address;                                                                              \
        if (old == compare) *address = value;                                                                \
        return old;                                                                                          \
    }
#define KCU_CAS_SCOPES(T)                                                                                    \
    KCU_CAS(atomicCAS, T, false)                                                                             \
    KCU_CAS(atomicCAS_block, T, true)                                                                        \
    KCU_API T atomicCAS_system(T *address, T compare, T value) { return atomicCAS(address, compare, value); }
KCU_CAS_SCOPES(int)
KCU_CAS_SCOPES(unsigned)
KCU_CAS(atomicCAS, unsigned short, false)
KCU_CAS_SCOPES(unsigned long long)

#define KCU_ADD_PAIR(NAME)                                                                                   \
    KCU_API float2 NAME(float2 *address, float2 value)                                                       \
    {                                                                                                        \
        return make_float2(NAME(&address->x, value.x), NAME(&address->y, value.y));                          \
    }                                                                                                        \
    KCU_API float4 NAME(float4 *address, float4 value)                                                       \
    {                                                                                                        \
        return make_float4(NAME(&address->x, value.x), NAME(&address->y, value.y),                           \
                           NAME(&address->z, value.z), NAME(&address->w, value.w));                          \
    }
KCU_ADD_PAIR(atomicAdd)
KCU_ADD_PAIR(atomicAdd_block)
KCU_ADD_PAIR(atomicAdd_system)

// Of 16 bytes that are aligned so: exchanged whole, and compared as bytes.
template <class T> using kcu_sixteen = typename kcu_enable<sizeof(T) == 16 && alignof(T) >= 16, T>::type;
#define KCU_SIXTEEN(SCOPE, IN_BLOCK)                                                                                 \
    template <class T> KCU_API kcu_sixteen<T> atomicExch##SCOPE(T *address, T value)                         \
    {                                                                                                        \
        kcu_spin_at(address, 0, IN_BLOCK);                                                                   \
        kcu_touch(address, sizeof(T));                                                                       \
        const T old = *address;                                                                              \
        *address = value;                                                                                    \
        return old;                                                                                          \
    }                                                                                                        \
    template <class T> KCU_API kcu_sixteen<T> atomicCAS##SCOPE(T *address, T compare, T value)               \
    {                                                                                                        \
        kcu_spin_at(address, 0, IN_BLOCK);                                                                   \
        kcu_touch(address, sizeof(T));                                                                       \
        const T old = *address;                                                                              \
        if (!__builtin_memcmp(&old, &compare, sizeof(T))) *address = value;                                  \
        return old;                                                                                          \
    }
KCU_SIXTEEN(, false)
KCU_SIXTEEN(_block, true)
KCU_SIXTEEN(_system, false)
