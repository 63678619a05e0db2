// `cuda::atomic` and `cuda::atomic_ref`: threads take turns, so an order and a scope say only when other
// blocks see what was stored.
// Source: CUDA C++ Core Libraries (libcu++), "Extended API: Synchronization Primitives".
#pragma once

#include "atomics.h"

namespace cuda
{
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
enum memory_order {
    memory_order_relaxed,
    memory_order_consume,
    memory_order_acquire,
    memory_order_release,
    memory_order_acq_rel,
    memory_order_seq_cst
};
namespace std
{
using cuda::memory_order;
using cuda::memory_order_acq_rel;
using cuda::memory_order_acquire;
using cuda::memory_order_relaxed;
using cuda::memory_order_release;
using cuda::memory_order_seq_cst;
} // namespace std

#define KCU_FETCH(NAME, NEW)                                                                                 \
    KCU_WHOLE T fetch_##NAME(T value, memory_order order = memory_order_seq_cst) const                       \
    {                                                                                                        \
        kcu_spin_at(place(), order, in_block);                                                               \
        kcu_touch(place(), sizeof(T));                                                                       \
        const T old = *place();                                                                              \
        *place() = T(NEW);                                                                                   \
        return old;                                                                                          \
    }

// What both classes do; `Self` says where the value lies.
template <class T, class Self, thread_scope Scope> struct kcu_atomic {
    static constexpr bool in_block = Scope >= thread_scope_block;
    kcu_atomic() = default;
    kcu_atomic(const kcu_atomic &) = default;
    kcu_atomic &operator=(const kcu_atomic &) = delete;
    T *place() const { return static_cast<const Self *>(this)->kcu_place(); }
    KCU_WHOLE T load(memory_order order = memory_order_seq_cst) const
    {
        kcu_ask_at(place(), order, in_block);
        return *(volatile T *)place();
    }
    KCU_WHOLE void store(T value, memory_order order = memory_order_seq_cst) const
    {
        kcu_store_at(place(), order, in_block);
        *(volatile T *)place() = value;
    }
    KCU_WHOLE T exchange(T value, memory_order order = memory_order_seq_cst) const
    {
        kcu_spin_at(place(), order, in_block);
        const T old = *(volatile T *)place();
        *(volatile T *)place() = value;
        return old;
    }
    KCU_WHOLE bool compare_exchange_strong(T &expected, T value, memory_order order = memory_order_seq_cst,
                                 memory_order = memory_order_seq_cst) const
    {
        kcu_spin_at(place(), order, in_block);
        const T old = *(volatile T *)place();
        if (__builtin_memcmp(&old, &expected, sizeof old) == 0) {
            *(volatile T *)place() = value;
            return true;
        }
        expected = old;
        return false;
    }
    bool compare_exchange_weak(T &expected, T value, memory_order order = memory_order_seq_cst,
                               memory_order = memory_order_seq_cst) const
    {
        return compare_exchange_strong(expected, value, order);
    }
    KCU_FETCH(add, old + value)
    KCU_FETCH(sub, old - value)
    KCU_FETCH(and, old &value)
    KCU_FETCH(or, old | value)
    KCU_FETCH(xor, old ^ value)
    KCU_FETCH(min, value < old ? value : old)
    KCU_FETCH(max, old < value ? value : old)
    operator T() const { return load(); }
    // As long as the value is `old`.
    void wait(T old, memory_order = memory_order_seq_cst) const
    {
        for (T now = load(); __builtin_memcmp(&now, &old, sizeof old) == 0; now = load()) {}
    }
    void notify_one() const {}
    void notify_all() const {}
};

template <class T, thread_scope Scope = thread_scope_system> struct atomic_ref
    : kcu_atomic<T, atomic_ref<T, Scope>, Scope> {
    T *address;
    explicit atomic_ref(T &value) : address(&value) {}
    T *kcu_place() const { return address; }
};
template <class T, thread_scope Scope = thread_scope_system>
struct atomic : kcu_atomic<T, atomic<T, Scope>, Scope> {
    // Values of less than four bytes take four.
    alignas(sizeof(T) < 4 ? 4 : alignof(T)) mutable T value;
    atomic() = default;
    atomic(const atomic &) = delete;
    atomic &operator=(const atomic &) = delete;
    constexpr atomic(T first) : value(first) {}
    T *kcu_place() const { return &value; }
};
KCU_API void atomic_thread_fence(memory_order order, thread_scope scope = thread_scope_system)
{
    if (order >= memory_order_release && scope <= thread_scope_device)
        kcu_fence();
    else
        kcu_spin();
}
} // namespace cuda
