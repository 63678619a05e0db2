#include <cooperative_groups.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;

#define BLOCKS 8
#define THREADS 512
#define WARPS (THREADS / 32)
#define HELD 8
#define ALL 0xffffffffu

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __half22float2(reinterpret_cast<const half2 *>(&bits)[j]);
}

// The sum over a cluster: in each warp, in each block, then over the blocks' shared memory.
__device__ __forceinline__ float cluster_sum(float value, int turn)
{
    __shared__ float parts[2][WARPS], whole[2];
    cg::cluster_group cluster = cg::this_cluster();
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    if (threadIdx.x % 32 == 0)
        parts[turn][threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = 0.0f;
        for (int warp = 0; warp < WARPS; warp++)
            value += parts[turn][warp];
        whole[turn] = value;
    }
    cluster.sync();
    value = 0.0f;
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
        value += *cluster.map_shared_rank(&whole[turn], block);
    return value;
}

__device__ __forceinline__ float leaky(float x, float slope) { return fmaxf(x, 0.0f) + slope * fminf(x, 0.0f); }

__device__ __forceinline__ uint4 scaled(const uint4 &bits, float by, float shift, float slope)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++)
        reinterpret_cast<half2 *>(&result)[j] = __floats2half2_rn(leaky(fmaf(at(bits, j).x, by, shift), slope),
                                                                  leaky(fmaf(at(bits, j).y, by, shift), slope));
    return result;
}

__device__ __forceinline__ float sum_of(const uint4 &bits, float sum)
{
#pragma unroll
    for (int j = 0; j < 4; j++)
        sum += at(bits, j).x + at(bits, j).y;
    return sum;
}

__device__ __forceinline__ float squares_of(const uint4 &bits, float mean, float sum)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float left = at(bits, j).x - mean, right = at(bits, j).y - mean;
        sum = fmaf(left, left, fmaf(right, right, sum));
    }
    return sum;
}

// A cluster of eight blocks a plane; each block holds an eighth of up to 262144 elements in registers.
extern "C" __global__ void __launch_bounds__(THREADS)
    instance_norm(const half *__restrict__ in, const half *__restrict__ weight, const half *__restrict__ bias,
                  half *__restrict__ out, int channels, int space, float eps, float slope)
{
    const size_t first = static_cast<size_t>(blockIdx.y) * space;
    const int channel = blockIdx.y % channels;
    const bool whole = space % 8 == 0;
    const int eights = whole ? space / 8 : 0, share = (eights + BLOCKS - 1) / BLOCKS;
    const int begin = min(eights, blockIdx.x * share), count = min(eights, begin + share) - begin;
    const int start = blockIdx.x * THREADS + threadIdx.x;
    const bool held = share <= HELD * THREADS;
    const uint4 *from = reinterpret_cast<const uint4 *>(in + first) + begin;
    uint4 *to = reinterpret_cast<uint4 *>(out + first) + begin;
    uint4 own[HELD];
    float sum = 0.0f;
    if (!whole) {
        for (int i = start; i < space; i += BLOCKS * THREADS)
            sum += __half2float(in[first + i]);
    } else if (held) {
#pragma unroll
        for (int u = 0; u < HELD; u++)
            if (threadIdx.x + u * THREADS < count)
                own[u] = __ldcs(from + threadIdx.x + u * THREADS);
#pragma unroll
        for (int u = 0; u < HELD; u++)
            if (threadIdx.x + u * THREADS < count)
                sum = sum_of(own[u], sum);
    } else {
        for (int i = threadIdx.x; i < count; i += THREADS)
            sum = sum_of(from[i], sum);
    }
    const float mean = cluster_sum(sum, 0) / space;
    sum = 0.0f;
    if (!whole) {
        for (int i = start; i < space; i += BLOCKS * THREADS) {
            const float d = __half2float(in[first + i]) - mean;
            sum = fmaf(d, d, sum);
        }
    } else if (held) {
#pragma unroll
        for (int u = 0; u < HELD; u++)
            if (threadIdx.x + u * THREADS < count)
                sum = squares_of(own[u], mean, sum);
    } else {
        for (int i = threadIdx.x; i < count; i += THREADS)
            sum = squares_of(from[i], mean, sum);
    }
    const float by = rsqrtf(cluster_sum(sum, 1) / space + eps) * __half2float(weight[channel]);
    const float shift = fmaf(-mean, by, __half2float(bias[channel]));
    if (!whole) {
        for (int i = start; i < space; i += BLOCKS * THREADS)
            out[first + i] = __float2half(leaky(fmaf(__half2float(in[first + i]), by, shift), slope));
    } else if (held) {
#pragma unroll
        for (int u = 0; u < HELD; u++)
            if (threadIdx.x + u * THREADS < count)
                __stcs(to + threadIdx.x + u * THREADS, scaled(own[u], by, shift, slope));
    } else {
        for (int i = threadIdx.x; i < count; i += THREADS)
            __stcs(to + i, scaled(from[i], by, shift, slope));
    }
    cg::this_cluster().sync();
}
