// Counting a block's items in a histogram that lies in shared or global memory.
#pragma once

#include "block_discontinuity.cuh"
#include "block_radix_sort.cuh"

namespace cub
{
enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

template <class T, int X, int N, int Bins, BlockHistogramAlgorithm A = BLOCK_HISTO_SORT, int Y = 1, int Z = 1>
class BlockHistogram : kcu_block<X, Y, Z>
{
    typedef kcu_block<X, Y, Z> kcu_base;
    typedef kcu_nothing Storage;
    union Sorted { // what sorting takes with NVRTC
        typename BlockRadixSort<T, X, N, NullType, 4, true, BLOCK_SCAN_WARP_SCANS, 0, Y, Z>::TempStorage keys;
        struct {
            typename BlockDiscontinuity<T, X, Y, Z>::TempStorage flags;
            unsigned begins[Bins], ends[Bins];
        } runs;
    };

public:
    struct TempStorage : kcu_raw<::kcu_std::conditional_t<A == BLOCK_HISTO_SORT, Sorted, kcu_nothing>> {};

private:
    KCU_COLLECTIVE(BlockHistogram)

    template <class C> void InitHistogram(C histogram[Bins])
    {
        for (int bin = this->rank; bin < Bins; bin += kcu_base::THREADS) histogram[bin] = 0;
    }
    // Threads take turns, so that nothing else comes between reading a count and writing it.
    template <class C> void Composite(T (&items)[N], C histogram[Bins])
    {
        if (A == BLOCK_HISTO_SORT) this->wait();
        for (int i = 0; i < N; i++) histogram[items[i]] += 1;
        if (A == BLOCK_HISTO_SORT) this->wait();
    }
    template <class C> void Histogram(T (&items)[N], C histogram[Bins])
    {
        InitHistogram(histogram);
        this->wait();
        Composite(items, histogram);
    }
};
} // namespace cub
