// Copies by a whole group, done when they are waited for.
#pragma once

#include "../kcurate/groups.h"

namespace cooperative_groups
{

template <class G> KCU_API void memcpy_async(const G &group, void *to, const void *from, size_t bytes)
{
    const size_t word = ((size_t)to | (size_t)from | bytes) % 16 == 0  ? 16
                        : ((size_t)to | (size_t)from | bytes) % 4 == 0 ? 4
                                                                       : 1;
    for (size_t at = group.thread_rank() * word; at < bytes; at += group.size() * word) {
        if (word == 1) {
            kcu_check_copy((char *)to + at, (const char *)from + at, 1, 1);
            ((char *)to)[at] = ((const char *)from)[at];
        } else
            kcu_copy_later((char *)to + at, (const char *)from + at, unsigned(word), 0);
    }
    kcu_commit_copies();
}
template <class G, class T>
KCU_API void memcpy_async(const G &group, T *to, size_t room, const T *from, size_t count)
{
    memcpy_async(group, (void *)to, (const void *)from, (room < count ? room : count) * sizeof(T));
}
template <unsigned Batches, class G> KCU_API void wait_prior(const G &group)
{
    kcu_finish_copies(Batches);
    group.sync();
}
template <class G> KCU_API void wait(const G &group) { wait_prior<0>(group); }

} // namespace cooperative_groups
