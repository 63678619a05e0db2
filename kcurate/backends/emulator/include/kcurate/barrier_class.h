// `cuda::barrier` and copies that arrive at one, on the mbarriers of the runtime.
// Source: CUDA C++ Core Libraries (libcu++), "Extended API: Synchronization Primitives, Asynchronous Operations".
#pragma once

#include "atomic_class.h"
#include "traits.h"

namespace cuda
{
template <size_t N> struct aligned_size_t {
    static constexpr size_t align = N;
    size_t value;
    explicit constexpr aligned_size_t(size_t bytes) : value(bytes) {}
    constexpr operator size_t() const { return value; }
};
enum class async_contract_fulfillment { none, async };
struct kcu_no_completion {};

template <thread_scope Scope = thread_scope_system, class Completion = kcu_no_completion> class barrier
{
    unsigned long long state; // an mbarrier
    unsigned long long *place() const { return const_cast<unsigned long long *>(&state); }

public:
    using arrival_token = unsigned long long;
    barrier() = default;
    barrier(const barrier &) = delete;
    barrier &operator=(const barrier &) = delete;
    explicit barrier(ptrdiff_t expected, Completion = Completion()) { kcu_init(expected); }
    void kcu_init(ptrdiff_t expected)
    {
        if (!::kcu_std::is_same_v<Completion, kcu_no_completion>)
            kcu_fault(KCU_UNSUPPORTED, "a cuda::barrier with a completion function is not emulated");
        kcu_mbarrier_init(place(), unsigned(expected));
    }
    unsigned long long *kcu_handle() { return place(); }
    friend void init(barrier *to, ptrdiff_t expected) { to->kcu_init(expected); }
    friend void init(barrier *to, ptrdiff_t expected, Completion) { to->kcu_init(expected); }
    static constexpr ptrdiff_t max() { return (1 << 20) - 1; }

    [[nodiscard]] arrival_token arrive(ptrdiff_t count = 1)
    {
        return kcu_mbarrier_arrive(place(), unsigned(count), 0, false);
    }
    void wait(arrival_token &&token) const { wait_parity(token >> 62 & 1); }
    void wait_parity(bool parity) const { kcu_mbarrier_wait(place(), parity); }
    void arrive_and_wait() { wait(arrive()); }
    void arrive_and_drop() { kcu_mbarrier_arrive(place(), 1, 0, true); }
};

// Pieces of at most 16 bytes of a copy that a group shares; the last one may be shorter.
template <class G, class Piece> KCU_API void kcu_share(const G &group, size_t bytes, Piece piece)
{
    const size_t all = group.size();
    for (size_t at = size_t(group.thread_rank()) * 16; at < bytes; at += all * 16)
        piece(at, bytes - at < 16 ? bytes - at : 16);
}
struct kcu_alone {
    static constexpr unsigned size() { return 1; }
    static constexpr unsigned thread_rank() { return 0; }
};
template <size_t N> constexpr size_t kcu_alignment(const aligned_size_t<N> &) { return N; }
constexpr size_t kcu_alignment(size_t) { return 1; }

KCU_API bool kcu_in_shared(const void *place) { return kcu_to_shared(place) != ~0ull; }
// Whether hardware copies this on its own: from global into shared memory, in words.
template <class S> KCU_API bool kcu_is_async(const void *to, const void *from, const S &bytes)
{
    const size_t bits = (size_t)to | (size_t)from;
    if (bits % kcu_alignment(bytes)) kcu_fault(KCU_LAUNCH, "a misaligned address of cuda::memcpy_async");
    return (bits | size_t(bytes)) % 4 == 0 && kcu_in_shared(to) && !kcu_in_shared(from);
}
// A thread's part of a copy: later, by `order(to, from, bytes)`, or now.
template <class G, class S, class Order>
KCU_API async_contract_fulfillment kcu_copy(const G &group, void *to, const void *from, const S &bytes, Order order)
{
    const bool later = kcu_is_async(to, from, bytes);
    kcu_share(group, size_t(bytes), [&](size_t at, size_t count) {
        if (later)
            order((char *)to + at, (const char *)from + at, unsigned(count));
        else {
            kcu_check_copy((char *)to + at, (const char *)from + at, count, count);
            __builtin_memcpy((char *)to + at, (const char *)from + at, count);
        }
    });
    return later ? async_contract_fulfillment::async : async_contract_fulfillment::none;
}

template <class G, class S, thread_scope Scope, class C>
KCU_API async_contract_fulfillment memcpy_async(const G &group, void *to, const void *from, S bytes,
                                                barrier<Scope, C> &b)
{
    unsigned long long *handle = b.kcu_handle();
    return kcu_copy(group, to, from, bytes, [=](char *into, const char *out, unsigned count) {
        kcu_copy_to_mbarrier(into, out, count, handle);
    });
}
template <class S, thread_scope Scope, class C>
KCU_API async_contract_fulfillment memcpy_async(void *to, const void *from, S bytes, barrier<Scope, C> &b)
{
    return memcpy_async(kcu_alone(), to, from, bytes, b);
}

namespace device
{
template <class C>
KCU_API unsigned long long *barrier_native_handle(barrier<thread_scope_block, C> &b) { return b.kcu_handle(); }
KCU_API void barrier_expect_tx(barrier<thread_scope_block> &b, ptrdiff_t bytes)
{
    kcu_mbarrier_arrive(b.kcu_handle(), 0, int(bytes), false);
}
[[nodiscard]] KCU_API barrier<thread_scope_block>::arrival_token
barrier_arrive_tx(barrier<thread_scope_block> &b, ptrdiff_t count, ptrdiff_t bytes)
{
    return kcu_mbarrier_arrive(b.kcu_handle(), unsigned(count), int(bytes), false);
}
template <class T, size_t N>
KCU_API async_contract_fulfillment memcpy_async_tx(T *to, const T *from, aligned_size_t<N> bytes,
                                                   barrier<thread_scope_block> &b)
{
    static_assert(N >= 16, "a bulk copy is aligned to 16 bytes");
    kcu_bulk_later(to, from, unsigned(bytes), b.kcu_handle());
    return async_contract_fulfillment::async;
}

namespace experimental
{
KCU_API void cp_async_bulk_global_to_shared(void *to, const void *from, uint32_t bytes,
                                            barrier<thread_scope_block> &b)
{
    kcu_bulk_later(to, from, bytes, b.kcu_handle());
}
KCU_API void cp_async_bulk_shared_to_global(void *to, const void *from, uint32_t bytes)
{
    kcu_bulk_later(to, from, bytes, nullptr);
}
KCU_API void cp_async_bulk_commit_group() { kcu_commit_bulk(); }
template <int Left> KCU_API void cp_async_bulk_wait_group_read() { kcu_finish_bulk(Left); }
KCU_API void fence_proxy_async_shared_cta() { kcu_spin(); }
#define KCU_TENSOR_COPY(D)                                                                                   \
    template <class... A> KCU_API void cp_async_bulk_tensor_##D##d_global_to_shared(A &&...)                 \
    {                                                                                                        \
        kcu_fault(KCU_UNSUPPORTED, "copies by tensor map are not emulated");                                 \
    }                                                                                                        \
    template <class... A> KCU_API void cp_async_bulk_tensor_##D##d_shared_to_global(A &&...)                 \
    {                                                                                                        \
        kcu_fault(KCU_UNSUPPORTED, "copies by tensor map are not emulated");                                 \
    }
KCU_TENSOR_COPY(1)
KCU_TENSOR_COPY(2)
KCU_TENSOR_COPY(3)
KCU_TENSOR_COPY(4)
KCU_TENSOR_COPY(5)
#undef KCU_TENSOR_COPY
} // namespace experimental
} // namespace device
} // namespace cuda
