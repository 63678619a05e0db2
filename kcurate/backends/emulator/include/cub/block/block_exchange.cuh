// Rearranging the items of a block between its threads: blocked (each thread has neighbouring items), striped (a
// stride of the block's threads between a thread's items), warp-striped, or by ranks.
#pragma once

#include "../../kcurate/cub.h"

namespace cub
{
// What it takes with NVRTC.
template <class T, int Threads, int N> struct alignas(16) kcu_exchange_room {
    static constexpr int items = Threads * N;
    T values[items + (N > 4 && kcu_is_power(N) ? items / 32 : 0)];
};

template <class T, int X, int N, bool Sliced = false, int Y = 1, int Z = 1> class BlockExchange : kcu_block<X, Y, Z>
{
    typedef kcu_block<X, Y, Z> kcu_base;
    using kcu_base::THREADS;
    struct Storage {
        kcu_room<T, THREADS * N> items;
    };

public:
    struct TempStorage : kcu_raw<kcu_exchange_room<T, (Sliced && X * Y * Z > 32 ? 32 : X * Y * Z), N>> {};

private:
    KCU_COLLECTIVE(BlockExchange)

private:
    int blocked(int i) const { return this->rank * N + i; }
    int striped(int i) const { return this->rank + i * THREADS; }
    int warp_striped(int i) const { return this->warp() * 32 * N + this->lane() + i * 32; }
    template <class O> void read(O (&output)[N], int (BlockExchange::*from)(int) const)
    {
        for (int i = 0; i < N; i++) output[i] = temp.items[(this->*from)(i)];
    }
    void write(const T (&input)[N], int (BlockExchange::*to)(int) const)
    {
        for (int i = 0; i < N; i++) temp.items[(this->*to)(i)] = input[i];
    }
    template <class R> void scatter(const T (&input)[N], R (&ranks)[N])
    {
        for (int i = 0; i < N; i++) temp.items[int(ranks[i])] = input[i];
        this->wait();
    }

public:
#define KCU_EXCHANGE(NAME, TO, FROM, WAIT)                                                                   \
    template <class O> void NAME(const T (&input)[N], O (&output)[N])                                        \
    {                                                                                                        \
        write(input, &BlockExchange::TO);                                                                    \
        WAIT;                                                                                                \
        read(output, &BlockExchange::FROM);                                                                  \
    }                                                                                                        \
    void NAME(T (&items)[N]) { NAME(items, items); }
    KCU_EXCHANGE(StripedToBlocked, striped, blocked, this->wait())
    KCU_EXCHANGE(BlockedToStriped, blocked, striped, this->wait())
    KCU_EXCHANGE(WarpStripedToBlocked, warp_striped, blocked, __syncwarp())
    KCU_EXCHANGE(BlockedToWarpStriped, blocked, warp_striped, __syncwarp())
#undef KCU_EXCHANGE
    template <class O, class R> void ScatterToBlocked(const T (&input)[N], O (&output)[N], R (&ranks)[N])
    {
        scatter(input, ranks);
        read(output, &BlockExchange::blocked);
    }
    template <class R> void ScatterToBlocked(T (&items)[N], R (&ranks)[N]) { ScatterToBlocked(items, items, ranks); }
    template <class O, class R> void ScatterToStriped(const T (&input)[N], O (&output)[N], R (&ranks)[N])
    {
        scatter(input, ranks);
        read(output, &BlockExchange::striped);
    }
    template <class R> void ScatterToStriped(T (&items)[N], R (&ranks)[N]) { ScatterToStriped(items, items, ranks); }
    template <class O, class R, class F>
    void ScatterToStripedFlagged(const T (&input)[N], O (&output)[N], R (&ranks)[N], F (&valid)[N])
    {
        for (int i = 0; i < N; i++)
            if (valid[i]) temp.items[int(ranks[i])] = input[i];
        this->wait();
        read(output, &BlockExchange::striped);
    }
    template <class R, class F> void ScatterToStripedFlagged(T (&items)[N], R (&ranks)[N], F (&valid)[N])
    {
        ScatterToStripedFlagged(items, items, ranks, valid);
    }
    // Items with a negative rank are left out.
    template <class O, class R> void ScatterToStripedGuarded(const T (&input)[N], O (&output)[N], R (&ranks)[N])
    {
        bool valid[N];
        for (int i = 0; i < N; i++) valid[i] = ranks[i] >= 0;
        ScatterToStripedFlagged(input, output, ranks, valid);
    }
    template <class R> void ScatterToStripedGuarded(T (&items)[N], R (&ranks)[N])
    {
        ScatterToStripedGuarded(items, items, ranks);
    }
};
} // namespace cub
