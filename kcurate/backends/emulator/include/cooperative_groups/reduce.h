// Reductions over the lanes of a group.
#pragma once

#include "../kcurate/groups.h"

namespace cooperative_groups
{

// In the order of a tree, as on the GPU: rank r takes rank r + s for s = half the group downwards.
template <class G, class T, class Op> KCU_API T reduce(const G &group, const T &value, Op &&op)
{
    const unsigned size = group.size(), rank = group.thread_rank();
    T sum = value;
    unsigned step = 1;
    while (step < size) step *= 2;
    for (step /= 2; step > 0; step /= 2) {
        const T other = group.shfl_down(sum, step);
        if (rank + step < size && rank < step) sum = op(sum, other);
    }
    return group.shfl(sum, 0);
}

} // namespace cooperative_groups
