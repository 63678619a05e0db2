#include <cooperative_groups.h>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;

#define BLOCKS 4
#define THREADS 512
#define WARPS (THREADS / 32)
#define HELD 8
#define AHEAD 3
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

// 16 bytes to shared memory in the background.
__device__ __forceinline__ void copy_async(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from) : "memory");
}

struct Running {
    float largest, sum;
};

__device__ __forceinline__ Running merge(Running a, Running b)
{
    const float both = fmaxf(a.largest, b.largest);
    return {both, a.sum * __expf(a.largest - both) + b.sum * __expf(b.largest - both)};
}

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ void take(Running &mine, const uint4 &bits)
{
    float both = mine.largest;
#pragma unroll
    for (int j = 0; j < 4; j++)
        both = fmaxf(both, fmaxf(at(bits, j).x, at(bits, j).y));
    mine.sum *= __expf(mine.largest - both);
    mine.largest = both;
#pragma unroll
    for (int j = 0; j < 4; j++)
        mine.sum += __expf(at(bits, j).x - both) + __expf(at(bits, j).y - both);
}

__device__ __forceinline__ uint4 shifted(const uint4 &bits, float shift)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++)
        reinterpret_cast<__nv_bfloat162 *>(&result)[j] =
            __floats2bfloat162_rn(at(bits, j).x - shift, at(bits, j).y - shift);
    return result;
}

// The four blocks of a cluster share a row; every block reads the others' results from their shared memory.
__device__ __forceinline__ Running cluster_merge(Running mine)
{
    __shared__ Running parts[WARPS], whole;
    cg::cluster_group cluster = cg::this_cluster();
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        mine = merge(mine, {__shfl_xor_sync(ALL, mine.largest, offset), __shfl_xor_sync(ALL, mine.sum, offset)});
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < WARPS; warp++)
            mine = merge(mine, parts[warp]);
        whole = mine;
    }
    cluster.sync();
    mine = *cluster.map_shared_rank(&whole, 0);
#pragma unroll
    for (int block = 1; block < BLOCKS; block++)
        mine = merge(mine, *cluster.map_shared_rank(&whole, block));
    cluster.sync();
    return mine;
}

// Resident clusters of four blocks, a row each; the next two rows are on their way to shared memory. A thread reads only
// what it has copied itself.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    log_softmax(const bf16 *__restrict__ in, bf16 *__restrict__ out, int rows, int cols)
{
    extern __shared__ __align__(16) uint4 slices[];
    const bool whole = cols % 8 == 0;
    const int groups = whole ? cols / 8 : 0, share = (groups + BLOCKS - 1) / BLOCKS;
    const bool held = whole && share <= HELD * THREADS;
    const int begin = min(groups, blockIdx.x * share), count = min(groups, begin + share) - begin;
    const auto start = [&](int turn) {
        const int row = blockIdx.y + turn * gridDim.y;
        if (held && row < rows)
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (threadIdx.x + u * THREADS < count)
                    copy_async(slices + (turn % AHEAD * HELD + u) * THREADS + threadIdx.x,
                               reinterpret_cast<const uint4 *>(in + static_cast<size_t>(row) * cols) + begin +
                                   threadIdx.x + u * THREADS);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int turn = 0; turn < AHEAD - 1; turn++)
        start(turn);
    for (int turn = 0, row = blockIdx.y; row < rows; turn++, row += gridDim.y) {
        start(turn + AHEAD - 1);
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
        const size_t first = static_cast<size_t>(row) * cols;
        const uint4 *from = reinterpret_cast<const uint4 *>(in + first) + begin;
        uint4 *to = reinterpret_cast<uint4 *>(out + first) + begin;
        Running mine = {LOWEST, 0.0f};
        uint4 own[HELD];
        if (held) {
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (threadIdx.x + u * THREADS < count) {
                    own[u] = slices[(turn % AHEAD * HELD + u) * THREADS + threadIdx.x];
                    take(mine, own[u]);
                }
        } else if (whole) {
            for (int i = threadIdx.x; i < count; i += THREADS)
                take(mine, from[i]);
        } else {
            for (int i = blockIdx.x * THREADS + threadIdx.x; i < cols; i += BLOCKS * THREADS)
                mine = merge(mine, {__bfloat162float(in[first + i]), 1.0f});
        }
        mine = cluster_merge(mine);
        const float shift = mine.largest + logf(mine.sum);
        if (held) {
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (threadIdx.x + u * THREADS < count)
                    __stcs(to + threadIdx.x + u * THREADS, shifted(own[u], shift));
        } else if (whole) {
            for (int i = threadIdx.x; i < count; i += THREADS)
                __stcs(to + i, shifted(from[i], shift));
        } else {
            for (int i = blockIdx.x * THREADS + threadIdx.x; i < cols; i += BLOCKS * THREADS)
                out[first + i] = __float2bfloat16(__bfloat162float(in[first + i]) - shift);
        }
    }
}
