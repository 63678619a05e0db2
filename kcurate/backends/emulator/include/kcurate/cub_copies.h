// Where a thread's items lie in its block's part of memory, for CUB's loads and stores.
#pragma once

#include "../cub/block/block_exchange.cuh"

namespace cub
{
KCU_API int kcu_warp_striped(int rank, int items, int i) { return rank / 32 * 32 * items + rank % 32 + i * 32; }
// A vectorised access: words of up to 16 bytes and at most 4 items.
template <class T, int N> KCU_API void kcu_check_vector(const T *place)
{
    const int items = N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : 1;
    const size_t bytes = sizeof(T) * items < 16 ? sizeof(T) * items : 16;
    if ((bytes & (bytes - 1)) == 0 && (size_t)place % bytes) kcu_fault(KCU_LAUNCH, "a misaligned address of a vector");
}
template <class I, int N> KCU_API void kcu_check_vector(const I &) {}

// Loads and stores of one arrangement: AT is where item `i` of thread `rank` lies.
#define KCU_ARRANGED(NAME, MORE, AT)                                                                         \
    template <MORE class T, int N, class I> KCU_API void LoadDirect##NAME(int rank, I from, T (&items)[N])   \
    {                                                                                                        \
        for (int i = 0; i < N; i++) items[i] = from[AT];                                                     \
    }                                                                                                        \
    template <MORE class T, int N, class I>                                                                  \
    KCU_API void LoadDirect##NAME(int rank, I from, T (&items)[N], int valid)                                \
    {                                                                                                        \
        for (int i = 0; i < N; i++)                                                                          \
            if ((AT) < valid) items[i] = from[AT];                                                           \
    }                                                                                                        \
    template <MORE class T, class D, int N, class I>                                                         \
    KCU_API void LoadDirect##NAME(int rank, I from, T (&items)[N], int valid, D otherwise)                   \
    {                                                                                                        \
        for (int i = 0; i < N; i++) items[i] = T(otherwise);                                                 \
        for (int i = 0; i < N; i++)                                                                          \
            if ((AT) < valid) items[i] = from[AT];                                                           \
    }                                                                                                        \
    template <MORE class T, int N, class O> KCU_API void StoreDirect##NAME(int rank, O to, T (&items)[N])    \
    {                                                                                                        \
        for (int i = 0; i < N; i++) to[AT] = items[i];                                                       \
    }                                                                                                        \
    template <MORE class T, int N, class O>                                                                  \
    KCU_API void StoreDirect##NAME(int rank, O to, T (&items)[N], int valid)                                 \
    {                                                                                                        \
        for (int i = 0; i < N; i++)                                                                          \
            if ((AT) < valid) to[AT] = items[i];                                                             \
    }
#define KCU_AND ,
KCU_ARRANGED(Blocked, , rank *N + i)
KCU_ARRANGED(Striped, int Threads KCU_AND, rank + i * Threads)
KCU_ARRANGED(WarpStriped, , kcu_warp_striped(rank, N, i))
#undef KCU_ARRANGED
#undef KCU_AND
template <class T, int N> KCU_API void LoadDirectBlockedVectorized(int rank, T *from, T (&items)[N])
{
    kcu_check_vector<T, N>(from);
    LoadDirectBlocked(rank, from, items);
}
template <class T, int N> KCU_API void StoreDirectBlockedVectorized(int rank, T *to, T (&items)[N])
{
    kcu_check_vector<T, N>(to);
    StoreDirectBlocked(rank, to, items);
}
} // namespace cub
