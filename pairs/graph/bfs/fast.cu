#include <cooperative_groups.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define CHUNK 512
#define EDGES 4
#define HUB 512
#define FULL 0xffffffffu

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

// Gives a level to the targets that have none, 128 at a time; returns how many this lane found. `at(edge)` is where the edge's
// target stands, for edges first to last. A bit that looks clear in L1 may be out of date: it is read from L2
// and then set by an atomic.
template <class Place>
__device__ __forceinline__ int visit(const int *__restrict__ targets, int *levels, unsigned *visited, int level, int first,
                                     int last, int lane, Place at)
{
    int found = 0;
    for (int base = first; base < last; base += 32 * EDGES) {
        unsigned target[EDGES], known[EDGES];
#pragma unroll
        for (int e = 0; e < EDGES; e++) {
            const int edge = base + e * 32 + lane;
            const int place = at(edge);
            target[e] = edge < last ? __ldcs(targets + place) : 0;
            known[e] = edge < last ? 0 : FULL;
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
            if ((known[e] >> target[e] % 32 & 1) == 0) {
                __stcg(levels + target[e], level);
                found++;
            }
        }
    }
    return found;
}

// There is no queue: each level looks through all levels for its nodes, which L2 holds, so that edges are read in
// order, and a found node costs no more than its bit and its level. Which nodes have a level is a bit each, few enough for
// L1. The edges of nodes with many of them are shared by all warps afterwards. When every node has a level, the
// last nodes' edges need not be looked at.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    traverse(const int *__restrict__ offsets, const int *__restrict__ targets, int *levels, unsigned *visited, int *hubs,
             int *counts, int *hub_counts, int nodes)
{
    __shared__ unsigned short stacks[WARPS][CHUNK];
    __shared__ int block_found;
    cg::grid_group grid = cg::this_grid();
    const int lane = threadIdx.x % 32;
    const int warp = (blockIdx.x * THREADS + threadIdx.x) / 32, warps = gridDim.x * WARPS;
    unsigned short *stack = stacks[threadIdx.x / 32];
    int reached = 1, last_found = 1;
    for (int level = 1; last_found > 0 && reached < nodes; level++) {
        int *hub_count = hub_counts + level % 3;
        if (threadIdx.x == 0)
            block_found = 0;
        __syncthreads();
        int found = 0;
        for (int first = warp * CHUNK; first < nodes; first += warps * CHUNK) {
            int seen[CHUNK / 32], size = 0;
#pragma unroll
            for (int i = 0; i < CHUNK / 32; i++) {
                const int node = first + i * 32 + lane;
                seen[i] = node < nodes ? __ldcg(levels + node) : -1;
            }
#pragma unroll
            for (int i = 0; i < CHUNK / 32; i++) {
                const unsigned all = __ballot_sync(FULL, seen[i] == level - 1);
                if (seen[i] == level - 1)
                    stack[size + __popc(all & ((1u << lane) - 1))] = i * 32 + lane;
                size += __popc(all);
            }
            __syncwarp();
            for (int some = 0; some < size; some += 32) {
                int begin = 0, degree = 0;
                if (some + lane < size) {
                    const int node = first + stack[some + lane];
                    begin = __ldg(offsets + node);
                    degree = __ldg(offsets + node + 1) - begin;
                    if (degree > HUB) {
                        hubs[atomicAdd(hub_count, 1)] = node;
                        degree = 0;
                    }
                }
                const int upto = inclusive(degree, lane);
                const int edges = __shfl_sync(FULL, upto, 31);
                begin -= upto - degree;
                found += visit(targets, levels, visited, level, 0, edges, lane, [&](int edge) {
                    int owner = 0;
#pragma unroll
                    for (int step = 16; step > 0; step /= 2)
                        if (__shfl_sync(FULL, upto, owner + step - 1) <= edge)
                            owner += step;
                    return __shfl_sync(FULL, begin, owner) + edge;
                });
            }
            __syncwarp();
        }
        grid.sync();
        const int several = __ldcg(hub_count);
        int passed = 0;
        for (int h = 0; h < several; h += 32) {
            int begin = 0, end = 0;
            if (h + lane < several) {
                const int hub = __ldcg(hubs + h + lane);
                begin = __ldg(offsets + hub);
                end = __ldg(offsets + hub + 1);
            }
            const int parts = (end - begin + 32 * EDGES - 1) / (32 * EDGES);
            const int upto = inclusive(parts, lane), total = __shfl_sync(FULL, upto, 31);
            // Part after part goes to warp after warp.
            for (int part = (warp + warps - passed) % warps; part < total; part += warps) {
                const int owner = __popc(__ballot_sync(FULL, upto <= part));
                const int first = __shfl_sync(FULL, begin, owner) +
                                  (part - __shfl_sync(FULL, upto - parts, owner)) * 32 * EDGES;
                found += visit(targets, levels, visited, level, first,
                               min(first + 32 * EDGES, __shfl_sync(FULL, end, owner)), lane,
                               [](int edge) { return edge; });
            }
            passed = (passed + total) % warps;
        }
        found = __reduce_add_sync(FULL, found);
        if (lane == 0 && found > 0)
            atomicAdd(&block_found, found);
        __syncthreads();
        if (threadIdx.x == 0 && block_found > 0)
            atomicAdd(counts + level % 3, block_found);
        if (grid.thread_rank() == 0)
            counts[(level + 1) % 3] = hub_counts[(level + 1) % 3] = 0;
        grid.sync();
        last_found = __ldcg(counts + level % 3);
        reached += last_found;
    }
}
