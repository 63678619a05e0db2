#include <climits>
#include <cooperative_groups.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define CHUNK 512
#define STACK 512
#define EDGES 4
#define WIDTH 128
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

__device__ __forceinline__ void push(int *stack, int &size, int node, bool wanted, int distance, int &least, int lane)
{
    const unsigned all = __ballot_sync(FULL, wanted);
    const int at = size + __popc(all & ((1u << lane) - 1));
    // A node for which there is no place is left to the next phase, which then starts at its distance.
    if (wanted && at < STACK)
        stack[at] = node;
    else if (wanted)
        least = min(least, distance);
    size = min(size + __popc(all), STACK);
    __syncwarp();
}

// Nodes are taken in the order of their distances, a span of them a phase, so that nearly every node's edges are relaxed
// once. A phase looks through all distances for its nodes; what gets a distance in the same span is expanded at once by the
// warp that found it. A warp spreads its lanes over the edges of 32 nodes.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    settle(const int *__restrict__ offsets, const int *__restrict__ targets, const int *__restrict__ weights,
           int *distances, int *expanded, int *leasts, int *counts, int nodes)
{
    __shared__ int stacks[WARPS][STACK];
    __shared__ int block_least, block_count;
    cg::grid_group grid = cg::this_grid();
    const int lane = threadIdx.x % 32;
    int *stack = stacks[threadIdx.x / 32];
    int low = 0, width = WIDTH, settled = 0;
    for (int phase = 0; low < INT_MAX; phase++) {
        const int high = low < INT_MAX - width ? low + width : INT_MAX;
        if (threadIdx.x == 0) {
            block_least = INT_MAX;
            block_count = 0;
        }
        __syncthreads();
        int least = INT_MAX, count = 0;
        for (int first = (blockIdx.x * WARPS + threadIdx.x / 32) * CHUNK; first < nodes;
             first += gridDim.x * WARPS * CHUNK) {
            int size = 0, seen[CHUNK / 32];
#pragma unroll
            for (int i = 0; i < CHUNK / 32; i++) {
                const int node = first + i * 32 + lane;
                seen[i] = node < nodes ? __ldcg(distances + node) : INT_MAX;
            }
#pragma unroll
            for (int i = 0; i < CHUNK / 32; i++) {
                if (seen[i] >= high)
                    least = min(least, seen[i]);
                push(stack, size, first + i * 32 + lane, seen[i] >= low && seen[i] < high, seen[i], least, lane);
            }
            while (size > 0) {
                const int taken = min(size, 32);
                size -= taken;
                int distance = 0, begin = 0, degree = 0;
                if (lane < taken) {
                    const int node = stack[size + lane];
                    distance = __ldcg(distances + node);
                    const int before = __ldcg(expanded + node);
                    begin = __ldg(offsets + node);
                    const int end = __ldg(offsets + node + 1);
                    if (distance < before) {
                        __stcg(expanded + node, distance);
                        degree = end - begin;
                        count++;
                    }
                }
                __syncwarp();
                const int upto = inclusive(degree, lane);
                const int total = __shfl_sync(FULL, upto, 31);
                begin -= upto - degree;
                for (int base = 0; base < total; base += 32 * EDGES) {
                    int target[EDGES], through[EDGES], known[EDGES];
#pragma unroll
                    for (int e = 0; e < EDGES; e++) {
                        const int edge = base + e * 32 + lane;
                        int owner = 0;
#pragma unroll
                        for (int step = 16; step > 0; step /= 2)
                            if (__shfl_sync(FULL, upto, owner + step - 1) <= edge)
                                owner += step;
                        const int at = __shfl_sync(FULL, begin, owner) + edge;
                        through[e] = __shfl_sync(FULL, distance, owner);
                        target[e] = edge < total ? __ldcs(targets + at) : -1;
                        through[e] += edge < total ? __ldcs(weights + at) : 0;
                    }
#pragma unroll
                    for (int e = 0; e < EDGES; e++)
                        known[e] = target[e] >= 0 ? __ldcg(distances + target[e]) : 0;
#pragma unroll
                    for (int e = 0; e < EDGES; e++) {
                        if (through[e] < known[e])
                            known[e] = atomicMin(distances + target[e], through[e]);
                    }
#pragma unroll
                    for (int e = 0; e < EDGES; e++) {
                        const bool nearer = through[e] < known[e];
                        if (nearer && through[e] >= high)
                            least = min(least, through[e]);
                        const bool now = nearer && through[e] < high;
                        if (__any_sync(FULL, now))
                            push(stack, size, target[e], now, through[e], least, lane);
                    }
                }
            }
        }
        least = __reduce_min_sync(FULL, least);
        count = __reduce_add_sync(FULL, count);
        if (lane == 0) {
            atomicMin(&block_least, least);
            atomicAdd(&block_count, count);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            atomicMin(leasts + phase % 3, block_least);
            atomicAdd(counts + phase % 3, block_count);
        }
        if (grid.thread_rank() == 0) {
            leasts[(phase + 1) % 3] = INT_MAX;
            counts[(phase + 1) % 3] = 0;
        }
        grid.sync();
        low = __ldcg(leasts + phase % 3);
        settled += __ldcg(counts + phase % 3);
        // The last nodes are few and far between, and few of their edges lead to anything nearer.
        if (settled > nodes / 4 * 3)
            width = min(2 * width, 1 << 20);
    }
}
