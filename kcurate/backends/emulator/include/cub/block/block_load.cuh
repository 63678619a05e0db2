// Loading a block's items into its threads, blocked unless STRIPED; TRANSPOSE reads striped and rearranges.
#pragma once

#include "../../kcurate/cub_copies.h"

namespace cub
{
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT,
    BLOCK_LOAD_STRIPED,
    BLOCK_LOAD_VECTORIZE,
    BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};

template <class T, int X, int N, BlockLoadAlgorithm A = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1>
class BlockLoad : kcu_block<X, Y, Z>
{
    typedef kcu_block<X, Y, Z> kcu_base;
    using kcu_base::THREADS;
    typedef BlockExchange<T, X, N, false, Y, Z> Exchange;
    static constexpr bool by_block = A == BLOCK_LOAD_TRANSPOSE;
    static constexpr bool by_warp = A == BLOCK_LOAD_WARP_TRANSPOSE || A == BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED;
    static_assert(!by_warp || THREADS % 32 == 0, "BLOCK_THREADS must be a multiple of WARP_THREADS");
    // What it takes with NVRTC.
    typedef BlockExchange<T, X, N, A == BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED, Y, Z> Room;
    typedef ::kcu_std::conditional_t<by_block || by_warp, typename Exchange::TempStorage, NullType> Storage;

public:
    struct TempStorage : ::kcu_std::conditional_t<by_block || by_warp, kcu_raw<typename Room::TempStorage>, kcu_raw<kcu_nothing>> {};

private:
    KCU_COLLECTIVE(BlockLoad)

    // `limits`: none, or the number of valid items, or that and what the other items get.
    template <class I, class... L> void Load(I from, T (&items)[N], L... limits)
    {
        if constexpr (A == BLOCK_LOAD_VECTORIZE && sizeof...(limits) == 0) kcu_check_vector<T, N>(from);
        if constexpr (A == BLOCK_LOAD_STRIPED || by_block)
            LoadDirectStriped<THREADS>(this->rank, from, items, limits...);
        else if constexpr (by_warp)
            LoadDirectWarpStriped(this->rank, from, items, limits...);
        else
            LoadDirectBlocked(this->rank, from, items, limits...);
        if constexpr (by_block) Exchange(temp, this->line).StripedToBlocked(items);
        if constexpr (by_warp) Exchange(temp, this->line).WarpStripedToBlocked(items);
    }
};
} // namespace cub
