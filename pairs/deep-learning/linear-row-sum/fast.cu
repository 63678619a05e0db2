#include <cuda_bf16.h>

#define THREADS 256
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

// The sum over the features commutes with the product: first the weights' rows, each block a share of them.
extern "C" __global__ void __launch_bounds__(THREADS)
    weight_sums(const bf16 *__restrict__ w, float *__restrict__ partial, int n, int k)
{
    const int group = blockIdx.x * THREADS + threadIdx.x, groups = k / 8;
    if (group >= groups)
        return;
    const uint4 *from = reinterpret_cast<const uint4 *>(w) + group;
    float sum[8] = {};
#pragma unroll 8
    for (int row = blockIdx.y; row < n; row += gridDim.y) {
        const uint4 own = __ldcs(from + static_cast<size_t>(row) * groups);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            sum[2 * j] += at(own, j).x;
            sum[2 * j + 1] += at(own, j).y;
        }
    }
    float4 *to = reinterpret_cast<float4 *>(partial + static_cast<size_t>(blockIdx.y) * k) + 2 * group;
    to[0] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    to[1] = make_float4(sum[4], sum[5], sum[6], sum[7]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    total_weights(const float *__restrict__ partial, const float *__restrict__ bias, float *__restrict__ whole,
                  int parts, int n, int k)
{
    __shared__ float sums[THREADS];
    if (blockIdx.x == gridDim.x - 1) {
        float sum = 0.0f;
        for (int i = threadIdx.x; i < n; i += THREADS)
            sum += bias[i];
        sums[threadIdx.x] = sum;
        __syncthreads();
        for (int stride = THREADS / 2; stride > 0; stride /= 2) {
            if (threadIdx.x < stride)
                sums[threadIdx.x] += sums[threadIdx.x + stride];
            __syncthreads();
        }
        if (threadIdx.x == 0)
            whole[k] = sums[0];
        return;
    }
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= k)
        return;
    float sum = 0.0f;
#pragma unroll 8
    for (int part = 0; part < parts; part++)
        sum += partial[static_cast<size_t>(part) * k + i];
    whole[i] = sum;
}

// Then one dot product a row, by a warp.
extern "C" __global__ void __launch_bounds__(THREADS)
    row_dots(const bf16 *__restrict__ x, const float *__restrict__ whole, float *__restrict__ y, int m, int k,
             float scale)
{
    const int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m)
        return;
    const uint4 *from = reinterpret_cast<const uint4 *>(x + static_cast<size_t>(row) * k);
    const float4 *weights = reinterpret_cast<const float4 *>(whole);
    float sum = 0.0f;
#pragma unroll 4
    for (int i = lane; i < k / 8; i += 32) {
        const uint4 own = __ldcs(from + i);
        const float4 a = weights[2 * i], b = weights[2 * i + 1];
        sum = fmaf(at(own, 0).x, a.x, fmaf(at(own, 0).y, a.y, sum));
        sum = fmaf(at(own, 1).x, a.z, fmaf(at(own, 1).y, a.w, sum));
        sum = fmaf(at(own, 2).x, b.x, fmaf(at(own, 2).y, b.y, sum));
        sum = fmaf(at(own, 3).x, b.z, fmaf(at(own, 3).y, b.w, sum));
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    if (lane == 0)
        y[row] = (sum + whole[k]) * scale;
}
