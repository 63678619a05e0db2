#include <cooperative_groups.h>

namespace cg = cooperative_groups;

#define THREADS 512
#define WARPS (THREADS / 32)
#define BLOCKS 4
#define HELD 8
#define AHEAD 3
#define ALL 0xffffffffu

// 16 bytes to shared memory in the background.
__device__ __forceinline__ void copy_async(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from) : "memory");
}

__device__ __forceinline__ float cluster_sum(float mine, float *warps, float *blocks)
{
    cg::cluster_group cluster = cg::this_cluster();
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        mine += __shfl_xor_sync(ALL, mine, offset);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < BLOCKS) {
        float block = 0.0f;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++)
            block += warps[warp];
        *cluster.map_shared_rank(blocks + cluster.block_rank(), threadIdx.x) = block;
    }
    cluster.sync();
    float total = 0.0f;
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
        total += blocks[block];
    return total;
}

__device__ __forceinline__ float squares(float4 v, float mean)
{
    const float x = v.x - mean, y = v.y - mean, z = v.z - mean, w = v.w - mean;
    return (x * x + y * y) + (z * z + w * w);
}

__device__ __forceinline__ float4 scaled(float4 v, float mean, float scale)
{
    return make_float4((v.x - mean) * scale, (v.y - mean) * scale, (v.z - mean) * scale, (v.w - mean) * scale);
}

// Resident clusters of four blocks, a row each; the next two rows are on their way to shared memory. A thread reads only
// what it has copied itself.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    standardize(const float *__restrict__ values, float *__restrict__ out, int rows, int cols, float eps)
{
    extern __shared__ __align__(16) float4 slices[];
    __shared__ float warps[2][WARPS], blocks[2][BLOCKS];
    const int quads = cols % 4 == 0 ? cols / 4 : 0, share = (quads + BLOCKS - 1) / BLOCKS;
    const bool held = cols % 4 == 0 && share <= HELD * THREADS;
    const int begin = min(static_cast<int>(blockIdx.x) * share, quads), count = min(share, quads - begin);
    cg::this_cluster().sync();
    const auto start = [&](int turn) {
        const int row = blockIdx.y + turn * gridDim.y;
        if (held && row < rows)
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (threadIdx.x + u * THREADS < count)
                    copy_async(slices + (turn % AHEAD * HELD + u) * THREADS + threadIdx.x,
                               reinterpret_cast<const float4 *>(values + static_cast<size_t>(row) * cols) + begin +
                                   threadIdx.x + u * THREADS);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int turn = 0; turn < AHEAD - 1; turn++)
        start(turn);
    for (int turn = 0, row = blockIdx.y; row < rows; turn++, row += gridDim.y) {
        start(turn + AHEAD - 1);
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
        const float *from = values + static_cast<size_t>(row) * cols;
        float *to = out + static_cast<size_t>(row) * cols;
        float4 own[HELD];
        float sum = 0.0f;
        if (held) {
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (threadIdx.x + u * THREADS < count) {
                    own[u] = slices[(turn % AHEAD * HELD + u) * THREADS + threadIdx.x];
                    sum += (own[u].x + own[u].y) + (own[u].z + own[u].w);
                }
        } else {
            for (int i = blockIdx.x * THREADS + threadIdx.x; i < cols; i += BLOCKS * THREADS)
                sum += from[i];
        }
        const float mean = cluster_sum(sum, warps[0], blocks[0]) / cols;
        float off = 0.0f;
        if (held) {
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (threadIdx.x + u * THREADS < count)
                    off += squares(own[u], mean);
        } else {
            for (int i = blockIdx.x * THREADS + threadIdx.x; i < cols; i += BLOCKS * THREADS)
                off += (from[i] - mean) * (from[i] - mean);
        }
        const float scale = rsqrtf(cluster_sum(off, warps[1], blocks[1]) / cols + eps);
        if (held) {
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (threadIdx.x + u * THREADS < count)
                    __stcs(reinterpret_cast<float4 *>(to) + begin + threadIdx.x + u * THREADS,
                           scaled(own[u], mean, scale));
        } else {
            for (int i = blockIdx.x * THREADS + threadIdx.x; i < cols; i += BLOCKS * THREADS)
                to[i] = (from[i] - mean) * scale;
        }
    }
}
