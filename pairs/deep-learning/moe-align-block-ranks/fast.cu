// One cooperative launch: blocks keep their entries and what they counted of them on the chip, show each other how many
// of each expert they have, meet once, and add up by themselves what stands before their own.
#include <cooperative_groups.h>

#define THREADS 1024
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

__device__ __forceinline__ int inclusive(int value)
{
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const int other = __shfl_up_sync(ALL, value, offset);
        value += threadIdx.x % 32 >= offset ? other : 0;
    }
    return value;
}

// counts[block][expert]: how often a block's entries name an expert. Ranks keep the entries' order: warps own runs of
// the block's entries.
template <int ROUNDS>
__global__ void __launch_bounds__(THREADS, 1)
    align(const int *__restrict__ ids, int *counts, int *__restrict__ order, int *__restrict__ tile_expert,
          int *__restrict__ total, int entries, int experts, int tile, int capacity)
{
    extern __shared__ int next[];
    // Where each expert's part of the order begins, and where all end: multiples of the tile.
    int *begins = next + WARPS * experts, *sizes = begins + experts + 1, *before = sizes + experts;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int *mine = next + warp * experts;
    int id[ROUNDS];
    unsigned same[ROUNDS];
    const int first = (blockIdx.x * WARPS + warp) * 32 * ROUNDS + lane;
#pragma unroll
    for (int round = 0; round < ROUNDS; round++)
        id[round] = first + 32 * round < entries ? ids[first + 32 * round] : -1;
    for (int i = lane; i < experts; i += 32)
        mine[i] = 0;
    for (int i = threadIdx.x; i < experts; i += THREADS)
        sizes[i] = before[i] = 0;
    __syncwarp();
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        same[round] = __match_any_sync(ALL, id[round]);
        if (id[round] >= 0 && __ffs(same[round]) - 1 == lane)
            mine[id[round]] += __popc(same[round]);
        __syncwarp();
    }
    __syncthreads();
    for (int expert = threadIdx.x; expert < experts; expert += THREADS) {
        int at = 0;
#pragma unroll 1
        for (int from = 0; from < WARPS; from += 8) {
            int own[8];
#pragma unroll
            for (int w = 0; w < 8; w++)
                own[w] = next[(from + w) * experts + expert];
#pragma unroll
            for (int w = 0; w < 8; w++) {
                next[(from + w) * experts + expert] = at;
                at += own[w];
            }
        }
        __stcg(counts + static_cast<size_t>(blockIdx.x) * experts + expert, at);
    }
    cooperative_groups::this_grid().sync();
    const int parts = max(THREADS / experts, 1);
    for (int i = threadIdx.x; i < parts * experts; i += THREADS) {
        const int expert = i % experts;
        int all = 0, earlier = 0;
#pragma unroll 8
        for (int block = i / experts; block < gridDim.x; block += parts) {
            const int count = __ldcg(counts + static_cast<size_t>(block) * experts + expert);
            all += count;
            earlier += block < blockIdx.x ? count : 0;
        }
        atomicAdd(sizes + expert, all);
        atomicAdd(before + expert, earlier);
    }
    __syncthreads();
    if (warp == 0) {
        int upto = 0;
        for (int from = 0; from < experts; from += 32) {
            const int expert = from + lane;
            const int padded = expert < experts ? (sizes[expert] + tile - 1) / tile * tile : 0;
            const int sum = inclusive(padded);
            if (expert < experts) {
                begins[expert] = upto + sum - padded;
                before[expert] += upto + sum - padded;
            }
            upto += __shfl_sync(ALL, sum, 31);
        }
        if (lane == 0) {
            begins[experts] = upto;
            if (blockIdx.x == 0)
                *total = upto;
        }
    }
    __syncthreads();
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        const int at = id[round] >= 0 ? mine[id[round]] : 0;
        __syncwarp();
        if (id[round] >= 0) {
            order[before[id[round]] + at + __popc(same[round] & ((1u << lane) - 1))] = first + 32 * round;
            if (__ffs(same[round]) - 1 == lane)
                mine[id[round]] = at + __popc(same[round]);
        }
        __syncwarp();
    }
    // The padding behind each expert's entries, a warp an expert, and the unused end.
    for (int expert = warp * gridDim.x + blockIdx.x; expert < experts; expert += gridDim.x * WARPS) {
        const int end = begins[expert + 1];
        for (int i = begins[expert] + sizes[expert] + lane; i < end; i += 32)
            order[i] = entries;
        for (int i = begins[expert] / tile + lane; i < end / tile; i += 32)
            tile_expert[i] = expert;
    }
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
    for (int i = begins[experts] + thread; i < capacity; i += threads)
        order[i] = entries;
    for (int i = begins[experts] / tile + thread; i < capacity / tile; i += threads)
        tile_expert[i] = -1;
}
