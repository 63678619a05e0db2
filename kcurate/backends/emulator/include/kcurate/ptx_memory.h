// Inline PTX: memory, atomics, what lanes and threads tell each other, asynchronous copies.
// Source: PTX ISA, "Data Movement and Conversion Instructions", "Parallel Synchronization".
#pragma once

#include "ptx.h"

namespace kcu_ptx
{

#define KCU_PTX_SPACE(NAME, TO, FROM)                                                                        \
    KCU_API unsigned long long to_space_##NAME(unsigned long long x) { return TO; }                          \
    KCU_API unsigned long long from_space_##NAME(unsigned long long x) { return FROM; }
KCU_PTX_SPACE(global, x, x)
KCU_PTX_SPACE(local, x, x)
KCU_PTX_SPACE(const, x, x)
KCU_PTX_SPACE(shared, kcu_to_shared((void *)x), (unsigned long long)kcu_from_shared(x))
KCU_PTX_SPACE(shared_cta, to_space_shared(x), from_space_shared(x))
KCU_PTX_SPACE(shared_cluster, to_space_shared(x), from_space_shared(x))
KCU_API bool is_shared(unsigned long long x) { return kcu_to_shared((void *)x) != ~0ull; }
KCU_API char *at(unsigned long long address) { return (char *)address; }
KCU_API char *at_shared(unsigned long long address) { return kcu_from_shared(address); }

// All bytes of an access lie in its allocation, also those whose values nobody uses.
KCU_API void check_access(const void *place, unsigned bytes)
{
    if ((size_t)place % bytes) kcu_fault(KCU_LAUNCH, "a misaligned address");
    kcu_check_copy(place, nullptr, bytes, 0);
}
template <class T> KCU_API T load(const char *from)
{
    check_access(from, sizeof(T));
    kcu_spin(from);
    T value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
}
template <class T> KCU_API T load_only(const char *from)
{
    KCU_IN_TURNS(kcu_read_only(from, sizeof(T)));
    return load<T>(from);
}
template <class T> KCU_API void put_back(char *to, T value, bool in_block)
{
    if (in_block)
        KCU_IN_TURNS(kcu_keep_back(to, sizeof value, true));
    else
        KCU_IN_TURNS(kcu_let_go(to, sizeof value));
    __builtin_memcpy(to, &value, sizeof value);
}
template <class T> KCU_API void store(char *to, T value)
{
    check_access(to, sizeof(T));
    kcu_spin();
    KCU_IN_TURNS(kcu_keep_back(to, sizeof value, false));
    __builtin_memcpy(to, &value, sizeof value);
}
template <class T, class R, int N> KCU_API void load_all(const char *from, R *const (&to)[N])
{
    check_access(from, sizeof(T) * N);
    for (int i = 0; i < N; i++) put(*to[i], load<T>(from + i * sizeof(T)));
}
template <class T, class R, int N> KCU_API void load_all_only(const char *from, R *const (&to)[N])
{
    KCU_IN_TURNS(kcu_read_only(from, sizeof(T) * N));
    load_all<T>(from, to);
}
template <class T, class R, int N> KCU_API void store_all(char *to, const R (&from)[N])
{
    check_access(to, sizeof(T) * N);
    for (int i = 0; i < N; i++) store<T>(to + i * sizeof(T), as<T>(from[i]));
}

#define KCU_PTX_ATOMIC(NAME, NEW)                                                                            \
    template <class T> KCU_API T atomic_##NAME(char *place, T value, bool in_block)                          \
    {                                                                                                        \
        kcu_touch(place, sizeof(T));                                                                         \
        const T old = load<T>(place);                                                                        \
        put_back<T>(place, T(NEW), in_block);                                                                \
        return old;                                                                                          \
    }
KCU_PTX_ATOMIC(add, old + value)
KCU_PTX_ATOMIC(min, lesser(old, value))
KCU_PTX_ATOMIC(max, greater(old, value))
KCU_PTX_ATOMIC(and, old &value)
KCU_PTX_ATOMIC(or, old | value)
KCU_PTX_ATOMIC(xor, old ^ value)
KCU_PTX_ATOMIC(exch, value)
KCU_PTX_ATOMIC(inc, old >= value ? 0 : old + 1)
KCU_PTX_ATOMIC(dec, old == 0 || old > value ? value : old - 1)
template <class T> KCU_API T atomic_cas(char *place, T compare, T value, bool in_block)
{
    kcu_touch(place, sizeof(T));
    const T old = load<T>(place);
    if (old == compare) put_back(place, value, in_block);
    return old;
}
// Of a vector, each element by itself; its registers hold bits.
#define KCU_PTX_ATOMICS(NAME)                                                                                \
    template <class T, class R, int N>                                                                       \
    KCU_API void atomic_all_##NAME(char *place, const R (&values)[N], bool in_block)                         \
    {                                                                                                        \
        check_access(place, sizeof(T) * N);                                                                  \
        for (int i = 0; i < N; i++) atomic_##NAME<T>(place + i * sizeof(T), as<T>(values[i]), in_block);     \
    }                                                                                                        \
    template <class T, class D, class R, int N>                                                              \
    KCU_API void atomic_each_##NAME(char *place, D *const (&to)[N], const R (&values)[N], bool in_block)     \
    {                                                                                                        \
        check_access(place, sizeof(T) * N);                                                                  \
        for (int i = 0; i < N; i++)                                                                          \
            put(*to[i], atomic_##NAME<T>(place + i * sizeof(T), as<T>(values[i]), in_block));                \
    }
KCU_PTX_ATOMICS(add)
KCU_PTX_ATOMICS(min)
KCU_PTX_ATOMICS(max)
KCU_API void fence() { kcu_fence(); }
// Whether an access's scope is the block.
KCU_API bool in() { return false; }
KCU_API bool incta() { return true; }
KCU_API bool incluster() { return false; }
KCU_API bool ingpu() { return false; }
KCU_API bool insys() { return false; }
// Before an access of this order: what was stored before a release is seen, by other blocks if they are in its scope.
KCU_API void after(bool) {}
KCU_API void afterweak(bool) {}
KCU_API void aftervolatile(bool) {}
KCU_API void afterrelaxed(bool) {}
KCU_API void afteracquire(bool) {}
KCU_API void afterrelease(bool in_block) { in_block ? kcu_spin() : kcu_fence(); }
KCU_API void afteracq_rel(bool in_block) { afterrelease(in_block); }
KCU_API void aftersc(bool in_block) { afterrelease(in_block); }

// The lanes of a warp.
KCU_API unsigned warp_number()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / 32;
}
KCU_API void warp_sync(unsigned mask) { __syncwarp(mask); }
template <class D> KCU_API void elect(D &leader, bool &is_leader, unsigned mask)
{
    KcuMeet *meet = kcu_meet(mask, KCU_ELECT, 0);
    leader = D(__builtin_ctz(meet->arrived));
    is_leader = leader == kcu_lane;
    kcu_leave(meet);
}
// Lane `from` answers when it lies in the segment that `c` describes; else a lane gets its own value.
KCU_API unsigned source(unsigned from, bool in_segment) { return in_segment ? from : kcu_lane; }
KCU_API unsigned last_lane(unsigned c) { return (kcu_lane & (c >> 8 & 31)) | (c & 31 & ~(c >> 8 & 31)); }
#define KCU_PTX_SHUFFLE(NAME, FROM, IN)                                                                      \
    template <class R, class T>                                                                              \
    KCU_API void shuffle_##NAME(R &to, bool &in_segment, T a, unsigned b, unsigned c, unsigned mask)         \
    {                                                                                                        \
        const unsigned last = last_lane(c);                                                                  \
        const int from = int(FROM);                                                                          \
        in_segment = IN;                                                                                     \
        to = R(kcu_exchange(mask, a, source(unsigned(from), in_segment)));                                   \
        (void)last;                                                                                          \
    }                                                                                                        \
    template <class T> KCU_API T shuffle_##NAME(T a, unsigned b, unsigned c, unsigned mask)                  \
    {                                                                                                        \
        T to;                                                                                                \
        bool in_segment;                                                                                     \
        shuffle_##NAME(to, in_segment, a, b, c, mask);                                                       \
        return to;                                                                                           \
    }
KCU_PTX_SHUFFLE(up, kcu_lane - (b & 31), from >= int(last))
KCU_PTX_SHUFFLE(down, kcu_lane + (b & 31), from <= int(last))
KCU_PTX_SHUFFLE(bfly, kcu_lane ^ (b & 31), from <= int(last))
KCU_PTX_SHUFFLE(idx, (kcu_lane & (c >> 8 & 31)) | (b & 31 & ~(c >> 8 & 31)), from <= int(last))
KCU_API bool vote_all(bool a, unsigned mask) { return __all_sync(mask, a); }
KCU_API bool vote_any(bool a, unsigned mask) { return __any_sync(mask, a); }
KCU_API bool vote_uni(bool a, unsigned mask) { return __uni_sync(mask, a); }
KCU_API unsigned ballot(bool a, unsigned mask) { return __ballot_sync(mask, a); }
template <class T> KCU_API unsigned match(T a, unsigned mask) { return __match_any_sync(mask, a); }
template <class T> KCU_API T reduce_add(T a, unsigned mask) { return __reduce_add_sync(mask, a); }
template <class T> KCU_API T reduce_min(T a, unsigned mask) { return __reduce_min_sync(mask, a); }
template <class T> KCU_API T reduce_max(T a, unsigned mask) { return __reduce_max_sync(mask, a); }
template <class T> KCU_API T reduce_and(T a, unsigned mask) { return __reduce_and_sync(mask, unsigned(a)); }
template <class T> KCU_API T reduce_or(T a, unsigned mask) { return __reduce_or_sync(mask, unsigned(a)); }
template <class T> KCU_API T reduce_xor(T a, unsigned mask) { return __reduce_xor_sync(mask, unsigned(a)); }

// The threads of a block. Barrier 0 for all of them is __syncthreads.
KCU_API void barrier_sync(unsigned number, unsigned count)
{
    const unsigned all = (blockDim.x * blockDim.y * blockDim.z + 31) / 32 * 32;
    if (number == 0 && (count == 0 || count == all))
        kcu_barrier(KCU_ANY_LINE, KCU_NONE, 0);
    else
        kcu_named_barrier(number, count, true);
}
KCU_API void barrier_arrive(unsigned number, unsigned count) { kcu_named_barrier(number, count, false); }

// Copies.
KCU_API void copy_async(char *to, const char *from, unsigned bytes, unsigned taken)
{
    kcu_copy_later(to, from, bytes, taken < bytes ? bytes - taken : 0);
}
KCU_API void commit_copies() { kcu_commit_copies(); }
KCU_API void wait_copies(unsigned batches_left) { kcu_finish_copies(batches_left); }
KCU_API void bulk_to_shared(char *to, const char *from, unsigned bytes, char *barrier)
{
    kcu_bulk_later(to, from, bytes, (unsigned long long *)barrier);
}
KCU_API void bulk_to_global(char *to, const char *from, unsigned bytes)
{
    kcu_bulk_later(to, from, bytes, nullptr);
}
// Into the same place of every block of the cluster that the mask names.
KCU_API unsigned cluster_blocks() { return kcu_cluster_dim.x * kcu_cluster_dim.y * kcu_cluster_dim.z; }
KCU_API void bulk_to_many(char *to, const char *from, unsigned bytes, char *barrier, unsigned mask)
{
    for (unsigned rank = 0; mask >> rank; rank++)
        if (mask >> rank & 1)
            bulk_to_shared((char *)kcu_map_shared(to, rank), from, bytes, (char *)kcu_map_shared(barrier, rank));
}
template <class T> KCU_API T map_address(T address, unsigned rank)
{
    return T(kcu_to_shared(kcu_map_shared(kcu_from_shared(address), rank)));
}
KCU_API u64 map_pointer(u64 address, unsigned rank) { return (u64)kcu_map_shared((void *)address, rank); }
KCU_API void bulk_prefetch(const char *from, unsigned bytes) { kcu_check_copy(nullptr, from, 0, bytes); }
KCU_API void commit_bulk() { kcu_commit_bulk(); }
KCU_API void wait_bulk(unsigned batches_left) { kcu_finish_bulk(batches_left); }

// mbarriers.
KCU_API unsigned long long *barrier_at(char *place)
{
    check_access(place, 8);
    return (unsigned long long *)place;
}
KCU_API void barrier_init(char *m, unsigned count) { kcu_mbarrier_init(barrier_at(m), count); }
KCU_API void barrier_inval(char *m) { *barrier_at(m) = 0; }
KCU_API unsigned long long arrive(char *m, unsigned count, unsigned bytes)
{
    return kcu_mbarrier_arrive(barrier_at(m), count, int(bytes), false);
}
KCU_API unsigned long long arrive_and_drop(char *m) { return kcu_mbarrier_arrive(barrier_at(m), 1, 0, true); }
KCU_API void expect_bytes(char *m, unsigned n) { kcu_mbarrier_arrive(barrier_at(m), 0, int(n), false); }
KCU_API void complete_bytes(char *m, unsigned n) { kcu_mbarrier_arrive(barrier_at(m), 0, -int(n), false); }
// st.async: what is stored is there at once, and its bytes have come.
template <class T> KCU_API void store_and_tell(char *to, T value, char *m)
{
    store<T>(to, value);
    complete_bytes(m, sizeof(T));
}
template <class T, class R, int N> KCU_API void store_all_and_tell(char *to, const R (&from)[N], char *m)
{
    store_all<T>(to, from);
    complete_bytes(m, sizeof(T) * N);
}
KCU_API bool parity_over(char *m, unsigned parity)
{
    kcu_spin();
    return kcu_mbarrier_parity(barrier_at(m)) != (parity & 1);
}
KCU_API bool phase_over(char *m, unsigned long long state) { return parity_over(m, unsigned(state >> 62)); }
KCU_API bool wait_parity(char *m, unsigned parity)
{
    if (parity_over(m, parity)) return true;
    kcu_yield();
    return parity_over(m, parity);
}
KCU_API bool wait_phase(char *m, unsigned long long state) { return wait_parity(m, unsigned(state >> 62)); }
// The thread's earlier copies are done, then it arrives; not `noinc`: its arrival was not counted before.
KCU_API void copies_arrivenoinc(char *m)
{
    kcu_finish_copies(~0u);
    arrive(m, 1, 0);
}
KCU_API void copies_arrive(char *m)
{
    kcu_finish_copies(~0u);
    check_access(m, 8);
}

} // namespace kcu_ptx
