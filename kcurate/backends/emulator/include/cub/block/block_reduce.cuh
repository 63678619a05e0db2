// Reductions over the threads of a block. Thread 0 gets the result.
#pragma once

#include "../../kcurate/cub.h"

namespace cub
{
enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
    BLOCK_REDUCE_RAKING,
    BLOCK_REDUCE_WARP_REDUCTIONS
};

// What it takes with NVRTC.
template <class T, int Threads, BlockReduceAlgorithm A> struct kcu_block_reduce_room {
    static constexpr int warps = (Threads + 31) / 32;
    kcu_reduce_room<T, (Threads < 32 ? Threads : 32)> parts[warps];
    T sums[warps], prefix;
};
template <class T, int Threads> struct kcu_block_reduce_room<T, Threads, BLOCK_REDUCE_RAKING> {
    union {
        kcu_reduce_room<T, kcu_rake_grid<T, Threads>::lanes> parts;
        kcu_raw<kcu_rake_grid<T, Threads>> grid;
    };
};
template <class T, int Threads> struct kcu_block_reduce_room<T, Threads, BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY> {
    union {
        struct {
            kcu_reduce_room<T, 32> parts;
            kcu_raw<kcu_rake_grid<T, (Threads > 33 ? Threads - 32 : 1)>> grid;
        } shared;
        kcu_raw<kcu_block_reduce_room<T, Threads, BLOCK_REDUCE_RAKING>> other;
    };
};

template <class T, int X, BlockReduceAlgorithm A = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1>
class BlockReduce : kcu_block<X, Y, Z>
{
    typedef kcu_block<X, Y, Z> kcu_base;
    struct Storage {
        kcu_room<T, kcu_base::WARPS> sums;
    };

public:
    struct TempStorage : kcu_raw<kcu_block_reduce_room<T, kcu_base::THREADS, A>> {};

private:
    KCU_COLLECTIVE(BlockReduce)

    template <class Op> T Reduce(T input, Op op, int valid)
    {
        const int own = valid - this->warp() * 32;
        if (own > 0) {
            kcu_lanes_of<T> all(~0u, input);
            if (this->lane() == 0) temp.sums[this->warp()] = all.reduce(0, own < 32 ? own : 32, op);
        }
        this->wait();
        if (this->rank) return kcu_undefined<T>();
        T sum = temp.sums[0];
        for (int warp = 1; warp * 32 < valid; warp++) sum = op(sum, temp.sums[warp]);
        return sum;
    }
    template <class Op> T Reduce(T input, Op op) { return Reduce(input, op, int(kcu_base::THREADS)); }
    template <int N, class Op> T Reduce(T (&inputs)[N], Op op) { return Reduce(kcu_fold(inputs, op), op); }
    T Sum(T input) { return Reduce(input, ::kcu_std::plus<T>()); }
    T Sum(T input, int valid) { return Reduce(input, ::kcu_std::plus<T>(), valid); }
    template <int N> T Sum(T (&inputs)[N]) { return Reduce(inputs, ::kcu_std::plus<T>()); }
};
} // namespace cub
