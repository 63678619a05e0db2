#include <cooperative_groups.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define STAGE 96
#define FULL 0xffffffffu

namespace cg = cooperative_groups;

__device__ __forceinline__ void publish(const int *staged, int found, int *next, int *next_count, int lane)
{
    int start = 0;
    if (lane == 0)
        start = atomicAdd(next_count, found);
    start = __shfl_sync(FULL, start, 0);
    for (int i = lane; i < found; i += 32)
        __stcg(next + start + i, staged[i]);
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    traverse(const int *__restrict__ offsets, const int *__restrict__ targets, int *levels, int *queue, int *next,
             int *counts)
{
    __shared__ int stages[WARPS][STAGE];
    cg::grid_group grid = cg::this_grid();
    const int lane = threadIdx.x % 32;
    const unsigned below = (1u << lane) - 1;
    int *staged = stages[threadIdx.x / 32];
    int total = 1;
    for (int level = 1; total > 0; level++) {
        int *next_count = counts + level % 3;
        int found = 0;
        for (int i = (blockIdx.x * THREADS + threadIdx.x) / 32; i < total; i += gridDim.x * WARPS) {
            const int node = __ldcg(queue + i);
            const int end = offsets[node + 1];
            for (int base = offsets[node]; base < end; base += 32) {
                bool won = false;
                int target = 0;
                if (base + lane < end) {
                    target = targets[base + lane];
                    won = __ldcg(levels + target) < 0 && atomicCAS(levels + target, -1, level) == -1;
                }
                const unsigned winners = __ballot_sync(FULL, won);
                if (winners == 0)
                    continue;
                if (found + 32 > STAGE) {
                    publish(staged, found, next, next_count, lane);
                    found = 0;
                }
                if (won)
                    staged[found + __popc(winners & below)] = target;
                found += __popc(winners);
                __syncwarp();
            }
        }
        if (found > 0)
            publish(staged, found, next, next_count, lane);
        if (grid.thread_rank() == 0)
            counts[(level + 1) % 3] = 0;
        grid.sync();
        total = __ldcg(next_count);
        int *other = queue;
        queue = next;
        next = other;
    }
}
