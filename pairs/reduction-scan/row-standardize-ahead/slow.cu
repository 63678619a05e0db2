#include <cooperative_groups.h>

namespace cg = cooperative_groups;

#define THREADS 512
#define WARPS (THREADS / 32)
#define BLOCKS 8
#define ALL 0xffffffffu

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

extern "C" __global__ void __launch_bounds__(THREADS)
    standardize(const float *__restrict__ values, float *__restrict__ out, int cols, float eps)
{
    extern __shared__ __align__(16) float slice[];
    __shared__ float warps[2][WARPS], blocks[2][BLOCKS];
    float4 *quads = reinterpret_cast<float4 *>(slice);
    const int share = (cols + BLOCKS * 4 - 1) / (BLOCKS * 4) * 4;
    const int first = min(static_cast<int>(blockIdx.x) * share, cols);
    const int count = min(share, cols - first);
    const size_t start = static_cast<size_t>(blockIdx.y) * cols + first;
    const float *from = values + start;
    float *to = out + start;
    const bool aligned = cols % 4 == 0;
    cg::this_cluster().barrier_arrive();
    float sum = 0.0f;
    if (aligned) {
#pragma unroll 4
        for (int i = threadIdx.x; i < count / 4; i += THREADS) {
            const float4 v = __ldcs(reinterpret_cast<const float4 *>(from) + i);
            quads[i] = v;
            sum += (v.x + v.y) + (v.z + v.w);
        }
    } else {
        for (int i = threadIdx.x; i < count; i += THREADS) {
            slice[i] = from[i];
            sum += slice[i];
        }
    }
    cg::this_cluster().barrier_wait();
    const float mean = cluster_sum(sum, warps[0], blocks[0]) / cols;

    float off = 0.0f;
    if (aligned)
        for (int i = threadIdx.x; i < count / 4; i += THREADS)
            off += squares(quads[i], mean);
    else
        for (int i = threadIdx.x; i < count; i += THREADS)
            off += (slice[i] - mean) * (slice[i] - mean);
    const float scale = rsqrtf(cluster_sum(off, warps[1], blocks[1]) / cols + eps);

    if (aligned)
        for (int i = threadIdx.x; i < count / 4; i += THREADS)
            __stcs(reinterpret_cast<float4 *>(to) + i, scaled(quads[i], mean, scale));
    else
        for (int i = threadIdx.x; i < count; i += THREADS)
            to[i] = (slice[i] - mean) * scale;
}
