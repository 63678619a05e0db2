// Prefix sums over the lanes of a group.
#pragma once

#include "../kcurate/groups.h"

namespace cooperative_groups
{

template <class G, class T, class Op> KCU_API T inclusive_scan(const G &group, const T &value, Op &&op)
{
    const unsigned size = group.size(), rank = group.thread_rank();
    T sum = value;
    for (unsigned step = 1; step < size; step *= 2) {
        const T other = group.shfl_up(sum, step);
        if (rank >= step) sum = op(other, sum);
    }
    return sum;
}
template <class G, class T> KCU_API T inclusive_scan(const G &group, const T &value)
{
    return inclusive_scan(group, value, plus<T>());
}
template <class G, class T, class Op> KCU_API T exclusive_scan(const G &group, const T &value, Op &&op)
{
    const T before = group.shfl_up(inclusive_scan(group, value, op), 1);
    return group.thread_rank() == 0 ? T() : before;
}
template <class G, class T> KCU_API T exclusive_scan(const G &group, const T &value)
{
    return exclusive_scan(group, value, plus<T>());
}

} // namespace cooperative_groups
