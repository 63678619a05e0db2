// The groups themselves. Collectives on them: cooperative_groups/{reduce,scan,memcpy_async}.h.
#pragma once

#include "warp.h"

namespace cooperative_groups
{

KCU_API unsigned kcu_thread_rank()
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
KCU_API unsigned kcu_block_size() { return blockDim.x * blockDim.y * blockDim.z; }
KCU_API unsigned kcu_below(unsigned mask) { return mask & ((1u << kcu_lane) - 1); }

// Groups have the size, the alignment and the traits that they have with NVRTC, where a side may ask for them
// (tests/backends/test_library_types.py). Who makes one says so; a side has no other way than the functions below.
struct kcu_made {};
// What a group holds: the lanes of tiles and converged ones, and of a larger group's parts its place among them.
struct kcu_held {
    alignas(8) unsigned mask;
    unsigned rank, count, block;
    kcu_held(unsigned lanes, unsigned place, unsigned parts, unsigned whole_block)
        : mask(lanes), rank(place), count(parts), block(whole_block)
    {
    }
    kcu_held(const kcu_held &) = default;
    kcu_held &operator=(const kcu_held &from)
    {
        __builtin_memcpy(this, &from, sizeof from);
        return *this;
    }
};

class grid_group : kcu_held
{
public:
    explicit grid_group(kcu_made) : kcu_held(0, 0, 0, 0) {}
    static const int kcu_grid_line = -1;
    bool is_valid() const { return kcu_is_cooperative(); }
    void sync() const { kcu_grid_sync(kcu_grid_line); }
    unsigned long long size() const { return num_blocks() * kcu_block_size(); }
    unsigned long long num_threads() const { return size(); }
    unsigned long long thread_rank() const { return block_rank() * kcu_block_size() + kcu_thread_rank(); }
    unsigned long long num_blocks() const { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    unsigned long long block_rank() const
    {
        return blockIdx.x +
               (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    dim3 group_dim() const { return gridDim; }
    dim3 dim_blocks() const { return gridDim; }
    dim3 block_index() const { return blockIdx; }
};
KCU_API grid_group this_grid() { return grid_group(kcu_made()); }

struct kcu_handle {
    unsigned long long kcu_words[2];
};
class thread_block : kcu_handle
{
    alignas(8) unsigned kcu_word;

public:
    explicit thread_block(kcu_made) : kcu_handle(), kcu_word(0) {}
    thread_block(const thread_block &) = default;
    thread_block &operator=(const thread_block &) = delete;
    // Where a barrier of a group stands is not known: all of them count as one place.
    void sync() const { kcu_barrier(-1, KCU_NONE, 0); }
    static unsigned size() { return kcu_block_size(); }
    static unsigned num_threads() { return kcu_block_size(); }
    static unsigned thread_rank() { return kcu_thread_rank(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};
KCU_API thread_block this_thread_block() { return thread_block(kcu_made()); }

// The blocks of a thread block cluster; a launch without clusters has one block in each.
class cluster_group : kcu_held
{
public:
    explicit cluster_group(kcu_made) : kcu_held(0, 0, 0, 0) {}
    struct arrival_token {};
    static void sync()
    {
        kcu_cluster_arrive();
        kcu_cluster_wait();
    }
    static arrival_token barrier_arrive()
    {
        kcu_cluster_arrive();
        return arrival_token();
    }
    static void barrier_wait(arrival_token = arrival_token()) { kcu_cluster_wait(); }
    static unsigned num_blocks() { return kcu_cluster_dim.x * kcu_cluster_dim.y * kcu_cluster_dim.z; }
    static unsigned block_rank() { return kcu_shared_rank(0); }
    static dim3 dim_blocks() { return kcu_cluster_dim; }
    static dim3 block_index() { return kcu_cluster_index; }
    static unsigned num_threads() { return num_blocks() * kcu_block_size(); }
    static unsigned size() { return num_threads(); }
    static unsigned thread_rank() { return block_rank() * kcu_block_size() + kcu_thread_rank(); }
    template <class T> static T *map_shared_rank(T *place, unsigned rank)
    {
        return (T *)kcu_map_shared((const void *)place, rank);
    }
    static unsigned query_shared_rank(const void *place) { return kcu_shared_rank(kcu_to_shared(place)); }
};
KCU_API cluster_group this_cluster() { return cluster_group(kcu_made()); }

// Lanes of one warp, by their mask: what tiles and converged lanes have in common.
template <class Self> struct kcu_lanes {
    unsigned kcu_mask() const { return static_cast<const Self *>(this)->kcu_mask(); }
    unsigned size() const { return __popc(kcu_mask()); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const { return __popc(kcu_below(kcu_mask())); }
    void sync() const { __syncwarp(kcu_mask()); }
    // The lane that has a rank in the group, and the group's ranks out of a mask of lanes.
    unsigned lane_of(unsigned rank) const
    {
        const unsigned mask = kcu_mask(), first = unsigned(__ffs(int(mask)) - 1), run = mask >> first;
        return (run & (run + 1)) == 0 ? (first + rank) & 31 : __fns(mask, 0, int(rank) + 1) & 31;
    }
    unsigned ranks_of(unsigned lanes) const
    {
        unsigned ranks = 0, rank = 0;
        for (unsigned rest = kcu_mask(); rest; rest &= rest - 1, rank++)
            if (lanes >> __ffs(int(rest)) - 1 & 1) ranks |= 1u << rank;
        return ranks;
    }
    // A value of any size, word by word.
    template <class T> T shfl(const T &value, int rank) const
    {
        unsigned words[(sizeof(T) + 3) / 4] = {};
        __builtin_memcpy(words, &value, sizeof(T));
        for (unsigned &word : words) word = kcu_exchange(kcu_mask(), word, lane_of(unsigned(rank) % size()));
        T result;
        __builtin_memcpy(&result, words, sizeof(T));
        return result;
    }
    template <class T> T shfl_down(const T &value, unsigned delta) const
    {
        const unsigned rank = thread_rank();
        return shfl(value, int(rank + delta < size() ? rank + delta : rank));
    }
    template <class T> T shfl_up(const T &value, unsigned delta) const
    {
        const unsigned rank = thread_rank();
        return shfl(value, int(rank >= delta ? rank - delta : rank));
    }
    int any(int predicate) const { return __any_sync(kcu_mask(), predicate); }
    int all(int predicate) const { return __all_sync(kcu_mask(), predicate); }
    unsigned ballot(int predicate) const { return ranks_of(__ballot_sync(kcu_mask(), predicate)); }
    template <class T> unsigned match_any(T value) const { return ranks_of(__match_any_sync(kcu_mask(), value)); }
    template <class T> unsigned match_all(T value, int &all) const
    {
        return ranks_of(__match_all_sync(kcu_mask(), value, &all));
    }
};

class coalesced_group : public kcu_lanes<coalesced_group>, kcu_held
{
public:
    coalesced_group(kcu_made, unsigned lanes) : kcu_held(lanes, 0, 1, 0) {}
    unsigned kcu_mask() const { return mask; }
    unsigned long long meta_group_size() const { return 1; }
    unsigned long long meta_group_rank() const { return 0; }
};
#define coalesced_threads() kcu_coalesced(kcu_converge(~__COUNTER__))
KCU_API coalesced_group kcu_coalesced(unsigned mask) { return coalesced_group(kcu_made(), mask); }

// A part of a group whose size the compiler knows: 1 to 32 lanes of one warp.
template <class Self, unsigned Size> struct kcu_tile : kcu_lanes<Self> {
    static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "tiles of a power of two up to 32 are emulated");
    static unsigned kcu_mask() { return (Size == 32 ? ~0u : (1u << Size % 32) - 1) << kcu_lane / Size * Size; }
    static unsigned size() { return Size; }
    static unsigned num_threads() { return Size; }
    static unsigned thread_rank() { return kcu_lane % Size; }
    void sync() const { __syncwarp(kcu_mask()); }
    template <class T> T shfl_xor(const T &value, unsigned flip) const
    {
        return this->shfl(value, int(thread_rank() ^ flip));
    }
};
template <unsigned Size, class Parent = void> class thread_block_tile;
// Of any group: it holds its place among the others.
template <unsigned Size>
class thread_block_tile<Size, void> : public kcu_tile<thread_block_tile<Size, void>, Size>, kcu_held
{
public:
    using kcu_tile<thread_block_tile, Size>::kcu_mask;
    thread_block_tile(kcu_made, unsigned place, unsigned parts) : kcu_held(kcu_mask(), place, parts, 0) {}
    unsigned meta_group_rank() const { return rank; }
    unsigned meta_group_size() const { return count; }
};
// Of a group of a known type: its place is computed.
template <unsigned Size, class Parent>
class thread_block_tile : public kcu_tile<thread_block_tile<Size, Parent>, Size>
{
    template <unsigned From, class P> static unsigned whole(const thread_block_tile<From, P> *) { return From; }
    static unsigned whole(const thread_block *) { return kcu_block_size(); }

public:
    explicit thread_block_tile(kcu_made) {}
    static unsigned meta_group_rank() { return Parent::thread_rank() / Size; }
    static unsigned meta_group_size() { return (whole((const Parent *)nullptr) + Size - 1) / Size; }
    operator thread_block_tile<Size, void>() const
    {
        return thread_block_tile<Size, void>(kcu_made(), meta_group_rank(), meta_group_size());
    }
};
template <unsigned Size> KCU_API thread_block_tile<Size, thread_block> tiled_partition(const thread_block &)
{
    return thread_block_tile<Size, thread_block>(kcu_made());
}
template <unsigned Size, unsigned From, class P>
KCU_API thread_block_tile<Size, thread_block_tile<From, P>> tiled_partition(const thread_block_tile<From, P> &)
{
    static_assert(Size <= From, "a tile of a tile is not larger");
    return thread_block_tile<Size, thread_block_tile<From, P>>(kcu_made());
}

// A tile or a block whose size is known only when it runs.
class thread_group : public kcu_lanes<thread_group>, kcu_held
{
public:
    thread_group(kcu_made, unsigned lanes, unsigned place, unsigned threads, bool whole_block)
        : kcu_held(lanes, place, threads, whole_block)
    {
    }
    thread_group(const thread_block &b) : kcu_held(~0u, b.thread_rank(), b.size(), true) {}
    thread_group(const coalesced_group &g) : kcu_held(g.kcu_mask(), g.thread_rank(), g.size(), false) {}
    template <unsigned S, class P>
    thread_group(const thread_block_tile<S, P> &tile) : kcu_held(tile.kcu_mask(), tile.thread_rank(), S, false)
    {
    }
    thread_group(const thread_group &) = default;
    thread_group &operator=(const thread_group &) = delete;
    unsigned kcu_mask() const { return mask; }
    bool kcu_is_block() const { return block; }
    unsigned size() const { return count; }
    unsigned num_threads() const { return count; }
    unsigned thread_rank() const { return rank; }
    void sync() const
    {
        if (block)
            kcu_barrier(-1, KCU_NONE, 0);
        else
            __syncwarp(mask);
    }
};
KCU_API thread_group tiled_partition(const thread_group &group, unsigned size)
{
    const unsigned first = kcu_lane / size * size;
    const unsigned whole = group.kcu_is_block() ? ~0u : group.kcu_mask();
    const unsigned lanes = whole & (size == 32 ? ~0u : (1u << size) - 1) << first;
    return thread_group(kcu_made(), lanes, unsigned(__popc(kcu_below(lanes))), unsigned(__popc(lanes)), false);
}
template <class G> KCU_API coalesced_group labeled_partition(const G &group, int label)
{
    return kcu_coalesced(__match_any_sync(group.kcu_mask(), label));
}
template <class G> KCU_API coalesced_group binary_partition(const G &group, bool side)
{
    const unsigned yes = __ballot_sync(group.kcu_mask(), side);
    return kcu_coalesced(side ? yes : group.kcu_mask() & ~yes);
}

template <class G> KCU_API void sync(const G &group) { group.sync(); }
template <class G> KCU_API auto thread_rank(const G &group) -> decltype(group.thread_rank())
{
    return group.thread_rank();
}
template <class G> KCU_API auto group_size(const G &group) -> decltype(group.size()) { return group.size(); }

template <class G, class Do> KCU_API void invoke_one(const G &group, Do &&action)
{
    if (group.thread_rank() == 0) action();
}

template <class T> struct plus {
    T operator()(const T &a, const T &b) const { return a + b; }
};
template <class T> struct less {
    T operator()(const T &a, const T &b) const { return b < a ? b : a; }
};
template <class T> struct greater {
    T operator()(const T &a, const T &b) const { return a < b ? b : a; }
};
template <class T> struct bit_and {
    T operator()(const T &a, const T &b) const { return a & b; }
};
template <class T> struct bit_or {
    T operator()(const T &a, const T &b) const { return a | b; }
};
template <class T> struct bit_xor {
    T operator()(const T &a, const T &b) const { return a ^ b; }
};

} // namespace cooperative_groups
