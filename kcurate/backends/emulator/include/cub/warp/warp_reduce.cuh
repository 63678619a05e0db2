// Reductions over the lanes of a warp, or of equal parts of one. Lane 0 of each gets the result.
#pragma once

#include "../../kcurate/cub.h"

namespace cub
{
template <class T, int N = 32> class WarpReduce : kcu_part<N>
{
    using kcu_part<N>::first, kcu_part<N>::lane, kcu_part<N>::mask;
    struct Flagged {
        T value;
        bool flag;
    };
    // For the first lane of each segment. A flag marks where one begins, or (`tails`) ends.
    template <class F, class Op> T segmented(T input, F flag, Op op, bool tails)
    {
        const Flagged own = {input, bool(flag)};
        kcu_lanes_of<Flagged> all(mask, own);
        const auto begins = [&](int at) { return at == 0 || (tails ? all[first + at - 1].flag : all[first + at].flag); };
        if (!begins(lane)) return kcu_undefined<T>();
        T sum = input;
        for (int at = lane + 1; at < N && !begins(at); at++) sum = op(sum, all[first + at].value);
        return sum;
    }

public:
    struct TempStorage : kcu_reduce_room<T, N> {};
    WarpReduce(TempStorage &) {}
    template <class Op> T Reduce(T input, Op op, int valid)
    {
        kcu_lanes_of<T> all(mask, input);
        return lane == 0 ? all.reduce(first, first + (valid < N ? valid : N), op) : kcu_undefined<T>();
    }
    template <class Op> T Reduce(T input, Op op) { return Reduce(input, op, N); }
    T Sum(T input) { return Reduce(input, ::kcu_std::plus<T>()); }
    T Sum(T input, int valid) { return Reduce(input, ::kcu_std::plus<T>(), valid); }
    template <class F, class Op> T HeadSegmentedReduce(T input, F head, Op op)
    {
        return segmented(input, head, op, false);
    }
    template <class F, class Op> T TailSegmentedReduce(T input, F tail, Op op)
    {
        return segmented(input, tail, op, true);
    }
    template <class F> T HeadSegmentedSum(T input, F head)
    {
        return segmented(input, head, ::kcu_std::plus<T>(), false);
    }
    template <class F> T TailSegmentedSum(T input, F tail)
    {
        return segmented(input, tail, ::kcu_std::plus<T>(), true);
    }
};
} // namespace cub
