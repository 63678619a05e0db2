// Prefix scans over the lanes of a warp, or of equal parts of one.
#pragma once

#include "../../kcurate/cub.h"

namespace cub
{
template <class T, int N = 32> class WarpScan : kcu_part<N>
{
    using kcu_part<N>::first, kcu_part<N>::lane, kcu_part<N>::mask;
    typedef ::kcu_std::plus<T> Plus;
    unsigned long long kcu_rest = 0; // as large as with NVRTC
    // The scan without this lane (`before`, which the first has only with a start) and with it; returns that of all.
    template <class Op> T scan(T input, const T *start, T *before, T *upto, Op op)
    {
        kcu_lanes_of<T> all(mask, input);
        int lanes = 0;
        while (lanes < N && all.has(first + lanes)) lanes++;
        const T sum = all.fold(first, first + lanes, op);
        T earlier = lane ? all.fold(first, first + lane, op) : kcu_undefined<T>();
        if (start) earlier = lane ? op(*start, earlier) : *start;
        if (before) *before = earlier;
        if (upto) *upto = lane || start ? op(earlier, input) : input;
        return sum;
    }

public:
    struct TempStorage : kcu_scan_room<T, N> {};
    WarpScan(TempStorage &) {}
    void InclusiveSum(T input, T &output) { scan(input, nullptr, nullptr, &output, Plus()); }
    void InclusiveSum(T input, T &output, T &sum) { sum = scan(input, nullptr, nullptr, &output, Plus()); }
    void ExclusiveSum(T input, T &output)
    {
        const T zero = T();
        scan(input, &zero, &output, nullptr, Plus());
    }
    void ExclusiveSum(T input, T &output, T &sum)
    {
        const T zero = T();
        sum = scan(input, &zero, &output, nullptr, Plus());
    }
    template <class Op> void InclusiveScan(T input, T &output, Op op) { scan(input, nullptr, nullptr, &output, op); }
    template <class Op> void InclusiveScan(T input, T &output, T start, Op op)
    {
        scan(input, &start, nullptr, &output, op);
    }
    template <class Op> void InclusiveScan(T input, T &output, Op op, T &sum)
    {
        sum = scan(input, nullptr, nullptr, &output, op);
    }
    template <class Op> void InclusiveScan(T input, T &output, T start, Op op, T &sum)
    {
        sum = scan(input, &start, nullptr, &output, op);
    }
    template <class Op> void ExclusiveScan(T input, T &output, Op op) { scan(input, nullptr, &output, nullptr, op); }
    template <class Op> void ExclusiveScan(T input, T &output, T start, Op op)
    {
        scan(input, &start, &output, nullptr, op);
    }
    template <class Op> void ExclusiveScan(T input, T &output, Op op, T &sum)
    {
        sum = scan(input, nullptr, &output, nullptr, op);
    }
    template <class Op> void ExclusiveScan(T input, T &output, T start, Op op, T &sum)
    {
        sum = scan(input, &start, &output, nullptr, op);
    }
    template <class Op> void Scan(T input, T &inclusive, T &exclusive, Op op)
    {
        scan(input, nullptr, &exclusive, &inclusive, op);
    }
    template <class Op> void Scan(T input, T &inclusive, T &exclusive, T start, Op op)
    {
        scan(input, &start, &exclusive, &inclusive, op);
    }
    T Broadcast(T input, unsigned from)
    {
        kcu_lanes_of<T> all(mask, input);
        return all[first + int(from)];
    }
};
} // namespace cub
