// Storing a block's items, which lie blocked in its threads unless STRIPED; TRANSPOSE rearranges and writes striped.
#pragma once

#include "../../kcurate/cub_copies.h"

namespace cub
{
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT,
    BLOCK_STORE_STRIPED,
    BLOCK_STORE_VECTORIZE,
    BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

template <class S> struct kcu_store_room : S {
    int valid;
};

template <class T, int X, int N, BlockStoreAlgorithm A = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1>
class BlockStore : kcu_block<X, Y, Z>
{
    typedef kcu_block<X, Y, Z> kcu_base;
    using kcu_base::THREADS;
    typedef BlockExchange<T, X, N, false, Y, Z> Exchange;
    static constexpr bool by_block = A == BLOCK_STORE_TRANSPOSE;
    static constexpr bool by_warp = A == BLOCK_STORE_WARP_TRANSPOSE || A == BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED;
    static_assert(!by_warp || THREADS % 32 == 0, "BLOCK_THREADS must be a multiple of WARP_THREADS");
    // What it takes with NVRTC.
    typedef BlockExchange<T, X, N, A == BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED, Y, Z> Room;
    typedef ::kcu_std::conditional_t<by_block || by_warp, typename Exchange::TempStorage, NullType> Storage;

public:
    struct TempStorage : ::kcu_std::conditional_t<by_block || by_warp, kcu_raw<kcu_store_room<typename Room::TempStorage>>, kcu_raw<kcu_nothing>> {};

private:
    KCU_COLLECTIVE(BlockStore)

    // `valid`: none, or the number of items that are stored.
    template <class O, class... V> void Store(O to, T (&items)[N], V... valid)
    {
        if constexpr (A == BLOCK_STORE_VECTORIZE && sizeof...(valid) == 0) kcu_check_vector<T, N>(to);
        if constexpr (by_block) Exchange(temp, this->line).BlockedToStriped(items);
        if constexpr (by_warp) Exchange(temp, this->line).BlockedToWarpStriped(items);
        if constexpr (A == BLOCK_STORE_STRIPED || by_block)
            StoreDirectStriped<THREADS>(this->rank, to, items, valid...);
        else if constexpr (by_warp)
            StoreDirectWarpStriped(this->rank, to, items, valid...);
        else
            StoreDirectBlocked(this->rank, to, items, valid...);
    }
};
} // namespace cub
