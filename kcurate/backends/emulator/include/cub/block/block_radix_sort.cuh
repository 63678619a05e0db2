// Sorting the keys of a block, with or without values: four bits at a time, equal keys in their order.
#pragma once

#include "block_exchange.cuh"
#include "block_scan.cuh"

namespace cub
{
// -0 and 0 are equal keys.
template <class K> KCU_API typename Traits<K>::UnsignedBits kcu_ordered(const K &key)
{
    typedef typename Traits<K>::UnsignedBits Bits;
    const Bits bits = kcu_bits<Bits>(key);
    const bool minus_zero = !::kcu_std::is_integral_v<K> && bits == Traits<K>::kcu_top;
    return Traits<K>::TwiddleIn(minus_zero ? Bits(0) : bits);
}

// What ranking takes with NVRTC: packed counters of 16 bits, and a scan over them.
template <int Threads, int RadixBits, class Packed, bool Warps> struct alignas(16) kcu_rank_room {
    static constexpr int packed = RadixBits - kcu_log2(sizeof(Packed) / 2);
    Packed counters[(1 << (packed > 0 ? packed : 0)) + 1][Threads];
    kcu_raw<kcu_block_scan_room<Packed, Threads, Warps>> scan;
};

template <class K, int X, int N, class V = NullType, int RadixBits = 4, bool Memoize = true,
          BlockScanAlgorithm A = BLOCK_SCAN_WARP_SCANS, int BankSize = 0, int Y = 1, int Z = 1>
class BlockRadixSort : kcu_block<X, Y, Z>
{
    typedef kcu_block<X, Y, Z> kcu_base;
    using kcu_base::THREADS;
    typedef BlockExchange<K, X, N, false, Y, Z> Keys;
    typedef BlockExchange<V, X, N, false, Y, Z> Values;
    static constexpr bool has_values = !::kcu_std::is_same_v<V, NullType>;
    static constexpr int DIGITS = 16;
    struct Storage {
        union {
            kcu_room<unsigned short, DIGITS * THREADS> counts; // of each digit, then of each thread
            typename Keys::TempStorage keys;
            typename Values::TempStorage values;
        };
    };

public:
    union kcu_room_on_gpu {
        kcu_raw<kcu_rank_room<X * Y * Z, RadixBits, ::kcu_std::conditional_t<BankSize == 2, unsigned long long, unsigned>,
                              A == BLOCK_SCAN_WARP_SCANS && X * Y * Z % 32 == 0>>
            ranks;
        typename Keys::TempStorage keys;
        typename Values::TempStorage values;
    };
    struct TempStorage : kcu_raw<kcu_room_on_gpu> {};

private:
    KCU_COLLECTIVE(BlockRadixSort)

private:
    template <class T> static void move(T (&items)[N], int (&places)[N], BlockExchange<T, X, N, false, Y, Z> with, bool striped)
    {
        if (striped)
            with.ScatterToStriped(items, places);
        else
            with.ScatterToBlocked(items, places);
    }
    // Where each key goes by `bits` of its bits from `at`.
    void rank_keys(K (&keys)[N], int (&places)[N], int at, int bits, bool descending)
    {
        int digits[N];
        for (int digit = 0; digit < DIGITS; digit++) temp.counts[digit * THREADS + this->rank] = 0;
        for (int i = 0; i < N; i++) {
            digits[i] = int(kcu_ordered(keys[i]) >> at & ((1u << bits) - 1));
            if (descending) digits[i] = DIGITS - 1 - digits[i];
            places[i] = temp.counts[digits[i] * THREADS + this->rank]++;
        }
        this->wait();
        if (this->rank == 0)
            for (int i = 0, sum = 0; i < DIGITS * THREADS; i++) {
                const int count = temp.counts[i];
                temp.counts[i] = (unsigned short)sum;
                sum += count;
            }
        this->wait();
        for (int i = 0; i < N; i++) places[i] += temp.counts[digits[i] * THREADS + this->rank];
        this->wait();
    }
    void sort(K (&keys)[N], V (&values)[N], int from, int to, bool descending, bool striped)
    {
        for (int at = from; at < to; at += 4) {
            if (at != from) this->wait();
            const bool last = at + 4 >= to;
            int places[N];
            rank_keys(keys, places, at, last ? to - at : 4, descending);
            move<K>(keys, places, Keys(temp.keys, this->line), striped && last);
            if (!has_values) continue;
            this->wait();
            move<V>(values, places, Values(temp.values, this->line), striped && last);
        }
    }

public:
#define KCU_SORT(NAME, DESCENDING, STRIPED)                                                                  \
    void NAME(K (&keys)[N], int begin_bit = 0, int end_bit = sizeof(K) * 8)                                  \
    {                                                                                                        \
        static_assert(!has_values, "a sort of keys and values needs both");                                  \
        V none[N];                                                                                           \
        sort(keys, none, begin_bit, end_bit, DESCENDING, STRIPED);                                           \
    }                                                                                                        \
    void NAME(K (&keys)[N], V (&values)[N], int begin_bit = 0, int end_bit = sizeof(K) * 8)                  \
    {                                                                                                        \
        sort(keys, values, begin_bit, end_bit, DESCENDING, STRIPED);                                         \
    }
    KCU_SORT(Sort, false, false)
    KCU_SORT(SortDescending, true, false)
    KCU_SORT(SortBlockedToStriped, false, true)
    KCU_SORT(SortDescendingBlockedToStriped, true, true)
#undef KCU_SORT
};
} // namespace cub
