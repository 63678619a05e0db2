// Prefix scans over the threads of a block, each with one item or several.
#pragma once

#include "../../kcurate/cub.h"

namespace cub
{
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

// What it takes with NVRTC; scans by warps need whole ones.
template <class T, int Threads, bool Warps> struct kcu_block_scan_room {
    kcu_scan_room<T, kcu_rake_grid<T, Threads>::lanes> parts;
    kcu_raw<kcu_rake_grid<T, Threads>> grid;
    T sum;
};
template <class T, int Threads> struct alignas(32) kcu_block_scan_room<T, Threads, true> {
    T sums[Threads / 32];
    kcu_scan_room<T, 32> parts[Threads / 32];
    T prefix;
};

template <class T, int X, BlockScanAlgorithm A = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1>
class BlockScan : kcu_block<X, Y, Z>
{
    typedef kcu_block<X, Y, Z> kcu_base;
    typedef ::kcu_std::plus<T> Plus;
    struct Storage {
        kcu_room<T, kcu_base::WARPS> sums;
        kcu_room<T, 1> start;
    };

public:
    struct TempStorage
        : kcu_raw<kcu_block_scan_room<T, kcu_base::THREADS, A == BLOCK_SCAN_WARP_SCANS && kcu_base::THREADS % 32 == 0>> {
    };

private:
    KCU_COLLECTIVE(BlockScan)

private:
    // What stands before the block's first item: nothing, a value, or what the block's first warp is told for its sum.
    struct Nothing {
        static constexpr bool there = false;
        T value(BlockScan &, const T &) { return kcu_undefined<T>(); }
    };
    struct Start {
        static constexpr bool there = true;
        T first;
        T value(BlockScan &, const T &) { return first; }
    };
    template <class F> struct Called {
        static constexpr bool there = true;
        F &call;
        T value(BlockScan &block, const T &sum)
        {
            if (block.warp() == 0) {
                const T first = call(sum);
                if (block.lane() == 0) block.temp.start[0] = first;
            }
            block.wait();
            return block.temp.start[0];
        }
    };

    template <bool Inclusive, class S, int N, class Op> T scan(T (&input)[N], T (&output)[N], Op op, S start)
    {
        bool any = this->lane() != 0;
        T before = kcu_undefined<T>();
        {
            const T own = kcu_fold(input, op);
            kcu_lanes_of<T> all(~0u, own);
            if (any) before = all.fold(0, this->lane(), op);
            if (this->lane() == 31 || this->rank == kcu_base::THREADS - 1)
                temp.sums[this->warp()] = any ? op(before, own) : own;
        }
        this->wait();
        T sum = temp.sums[0];
        for (int warp = 1; warp < kcu_base::WARPS; warp++) {
            if (warp == this->warp()) {
                before = any ? op(sum, before) : sum;
                any = true;
            }
            sum = op(sum, temp.sums[warp]);
        }
        const T first = start.value(*this, sum);
        if (S::there) before = any ? op(first, before) : first;
        any |= S::there;
        for (int i = 0; i < N; i++) {
            const T upto = any ? op(before, input[i]) : input[i];
            output[i] = Inclusive ? upto : before;
            before = upto;
            any = true;
        }
        return sum;
    }
    template <bool Inclusive, class S, class Op> T scan(const T &input, T &output, Op op, S start)
    {
        T in[1] = {input}, out[1];
        const T sum = scan<Inclusive>(in, out, op, start);
        output = out[0];
        return sum;
    }

public:
    void ExclusiveSum(T input, T &output) { scan<false>(input, output, Plus(), Start{T()}); }
    void ExclusiveSum(T input, T &output, T &sum) { sum = scan<false>(input, output, Plus(), Start{T()}); }
    template <class F> void ExclusiveSum(T input, T &output, F &prefix)
    {
        scan<false>(input, output, Plus(), Called<F>{prefix});
    }
    template <int N> void ExclusiveSum(T (&input)[N], T (&output)[N]) { scan<false>(input, output, Plus(), Start{T()}); }
    template <int N> void ExclusiveSum(T (&input)[N], T (&output)[N], T &sum)
    {
        sum = scan<false>(input, output, Plus(), Start{T()});
    }
    template <int N, class F> void ExclusiveSum(T (&input)[N], T (&output)[N], F &prefix)
    {
        scan<false>(input, output, Plus(), Called<F>{prefix});
    }
    void InclusiveSum(T input, T &output) { scan<true>(input, output, Plus(), Nothing()); }
    void InclusiveSum(T input, T &output, T &sum) { sum = scan<true>(input, output, Plus(), Nothing()); }
    template <class F> void InclusiveSum(T input, T &output, F &prefix)
    {
        scan<true>(input, output, Plus(), Called<F>{prefix});
    }
    template <int N> void InclusiveSum(T (&input)[N], T (&output)[N]) { scan<true>(input, output, Plus(), Nothing()); }
    template <int N> void InclusiveSum(T (&input)[N], T (&output)[N], T &sum)
    {
        sum = scan<true>(input, output, Plus(), Nothing());
    }
    template <int N, class F> void InclusiveSum(T (&input)[N], T (&output)[N], F &prefix)
    {
        scan<true>(input, output, Plus(), Called<F>{prefix});
    }

// The same for any operator: IN and OUT are one item or an array of them.
#define KCU_SCANS(NAME, INCLUSIVE, IN, OUT, MORE)                                                            \
    template <MORE class Op> void NAME(IN, OUT, Op op) { scan<INCLUSIVE>(input, output, op, Nothing()); }    \
    template <MORE class Op> void NAME(IN, OUT, Op op, T &sum)                                               \
    {                                                                                                        \
        sum = scan<INCLUSIVE>(input, output, op, Nothing());                                                 \
    }                                                                                                        \
    template <MORE class Op, class F> void NAME(IN, OUT, Op op, F &prefix)                                   \
    {                                                                                                        \
        scan<INCLUSIVE>(input, output, op, Called<F>{prefix});                                               \
    }
#define KCU_STARTED(NAME, INCLUSIVE, IN, OUT, MORE)                                                          \
    template <MORE class Op> void NAME(IN, OUT, T first, Op op)                                              \
    {                                                                                                        \
        scan<INCLUSIVE>(input, output, op, Start{first});                                                    \
    }                                                                                                        \
    template <MORE class Op> void NAME(IN, OUT, T first, Op op, T &sum)                                      \
    {                                                                                                        \
        sum = scan<INCLUSIVE>(input, output, op, Start{first});                                              \
    }
#define KCU_AND ,
    KCU_SCANS(ExclusiveScan, false, T input, T &output, )
    KCU_STARTED(ExclusiveScan, false, T input, T &output, )
    KCU_SCANS(InclusiveScan, true, T input, T &output, )
    KCU_SCANS(ExclusiveScan, false, T (&input)[N], T (&output)[N], int N KCU_AND)
    KCU_STARTED(ExclusiveScan, false, T (&input)[N], T (&output)[N], int N KCU_AND)
    KCU_SCANS(InclusiveScan, true, T (&input)[N], T (&output)[N], int N KCU_AND)
    KCU_STARTED(InclusiveScan, true, T (&input)[N], T (&output)[N], int N KCU_AND)
#undef KCU_SCANS
#undef KCU_STARTED
#undef KCU_AND
};
} // namespace cub
