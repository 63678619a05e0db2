#include <cooperative_groups.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define STAGE 256
#define SHARE 4
#define EDGES 4
#define PART 256
#define FULL 0xffffffffu

typedef unsigned long long word;

namespace cg = cooperative_groups;

__device__ __forceinline__ int inclusive(int value, int lane)
{
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(FULL, value, distance);
        if (lane >= distance)
            value += other;
    }
    return value;
}

// Puts the edges of up to 128 nodes into the next queue, in parts of at most 256. The upper half of the count has the
// nodes, the lower half the parts.
__device__ __forceinline__ void publish(const int *__restrict__ offsets, const int *staged, int found, int2 *next,
                                        word *count, int lane)
{
    int begin[SHARE], end[SHARE], parts = 0;
#pragma unroll
    for (int s = 0; s < SHARE; s++) {
        begin[s] = end[s] = 0;
        if (s * 32 + lane < found) {
            const int node = staged[s * 32 + lane];
            begin[s] = __ldg(offsets + node);
            end[s] = __ldg(offsets + node + 1);
        }
    }
#pragma unroll
    for (int s = 0; s < SHARE; s++)
        parts += (end[s] - begin[s] + PART - 1) / PART;
    const int upto = inclusive(parts, lane);
    int start = 0;
    if (lane == 31)
        start = static_cast<int>(atomicAdd(count, static_cast<word>(found) << 32 | static_cast<unsigned>(upto)));
    start = __shfl_sync(FULL, start, 31) + upto - parts;
#pragma unroll
    for (int s = 0; s < SHARE; s++)
        for (int b = begin[s]; b < end[s]; b += PART)
            __stcg(next + start++, make_int2(b, min(b + PART, end[s])));
    __syncwarp();
}

// Which nodes have a level is a bit each, few enough for the cache of a multiprocessor; a bit that looks clear there may
// be out of date, so that it is read from L2 and then set by an atomic. The queue has edges, not nodes, in parts
// small enough that no node with many of them holds up a level. When every node has a level, the last
// nodes' edges need not be looked at.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    traverse(const int *__restrict__ offsets, const int *__restrict__ targets, int *levels, unsigned *visited, int2 *queue,
             int2 *next, word *counts, int nodes, int source)
{
    __shared__ int stages[WARPS][STAGE];
    cg::grid_group grid = cg::this_grid();
    const int lane = threadIdx.x % 32;
    const int warp = (blockIdx.x * THREADS + threadIdx.x) / 32, warps = gridDim.x * WARPS;
    const unsigned below = (1u << lane) - 1;
    int *staged = stages[threadIdx.x / 32];
    if (warp == 0) {
        if (lane == 0)
            staged[0] = source;
        __syncwarp();
        publish(offsets, staged, 1, queue, counts, lane);
    }
    grid.sync();
    int total = static_cast<int>(__ldcg(counts)), reached = 1;
    for (int level = 1; total > 0 && reached < nodes; level++) {
        word *next_count = counts + level % 3;
        const int several = min((total + warps - 1) / warps, 32);
        int found = 0;
        for (int first = warp * several; first < total; first += warps * several) {
            int begin = 0, degree = 0;
            if (lane < several && first + lane < total) {
                const int2 part = __ldcg(queue + first + lane);
                begin = part.x;
                degree = part.y - part.x;
            }
            const int upto = inclusive(degree, lane);
            const int edges = __shfl_sync(FULL, upto, 31);
            begin -= upto - degree;
            for (int base = 0; base < edges; base += 32 * EDGES) {
                unsigned target[EDGES], known[EDGES];
#pragma unroll
                for (int e = 0; e < EDGES; e++) {
                    const int edge = base + e * 32 + lane;
                    int owner = 0;
#pragma unroll
                    for (int step = 16; step > 0; step /= 2)
                        if (__shfl_sync(FULL, upto, owner + step - 1) <= edge)
                            owner += step;
                    const int at = __shfl_sync(FULL, begin, owner) + edge;
                    target[e] = edge < edges ? __ldcs(targets + at) : 0;
                    known[e] = edge < edges ? 0 : FULL;
                }
#pragma unroll
                for (int e = 0; e < EDGES; e++)
                    if (known[e] == 0)
                        known[e] = __ldca(visited + target[e] / 32);
#pragma unroll
                for (int e = 0; e < EDGES; e++)
                    if ((known[e] >> target[e] % 32 & 1) == 0)
                        known[e] = __ldcg(visited + target[e] / 32);
#pragma unroll
                for (int e = 0; e < EDGES; e++)
                    if ((known[e] >> target[e] % 32 & 1) == 0)
                        known[e] = atomicOr(visited + target[e] / 32, 1u << target[e] % 32);
#pragma unroll
                for (int e = 0; e < EDGES; e++) {
                    const bool won = (known[e] >> target[e] % 32 & 1) == 0;
                    const unsigned winners = __ballot_sync(FULL, won);
                    if (won) {
                        staged[found + __popc(winners & below)] = target[e];
                        levels[target[e]] = level;
                    }
                    found += __popc(winners);
                }
                __syncwarp();
                if (found >= 32 * SHARE) {
                    found -= 32 * SHARE;
                    publish(offsets, staged + found, 32 * SHARE, next, next_count, lane);
                }
            }
        }
        if (found > 0)
            publish(offsets, staged, found, next, next_count, lane);
        if (grid.thread_rank() == 0)
            counts[(level + 1) % 3] = 0;
        grid.sync();
        const word count = __ldcg(next_count);
        total = static_cast<int>(count);
        reached += static_cast<int>(count >> 32);
        int2 *other = queue;
        queue = next;
        next = other;
    }
}
