#include <cuda_bf16.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define UNROLL 4
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ float block_sum(float value)
{
    __shared__ float parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[threadIdx.x % WARPS];
#pragma unroll
    for (int offset = WARPS / 2; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    squares(const bf16 *__restrict__ gradient, float *__restrict__ partial, int count)
{
    const uint4 *from = reinterpret_cast<const uint4 *>(gradient);
    const int eights = count / 8, stride = gridDim.x * THREADS, first = blockIdx.x * THREADS + threadIdx.x;
    float sums[UNROLL] = {};
    int i = first;
    for (; i + (UNROLL - 1) * stride < eights; i += UNROLL * stride) {
        uint4 own[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            own[u] = from[i + u * stride];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                sums[u] = fmaf(at(own[u], j).x, at(own[u], j).x, fmaf(at(own[u], j).y, at(own[u], j).y, sums[u]));
    }
    for (; i < eights; i += stride) {
        const uint4 own = from[i];
#pragma unroll
        for (int j = 0; j < 4; j++)
            sums[0] = fmaf(at(own, j).x, at(own, j).x, fmaf(at(own, j).y, at(own, j).y, sums[0]));
    }
    if (first < count % 8) {
        const float last = __bfloat162float(gradient[eights * 8 + first]);
        sums[1] = fmaf(last, last, sums[1]);
    }
    const float sum = block_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

// Every block adds up the few partial sums itself. Elements in falling order: the last ones read are still in L2.
extern "C" __global__ void __launch_bounds__(THREADS)
    scale(bf16 *__restrict__ gradient, const float *__restrict__ partial, float *__restrict__ norm, int count,
          float limit)
{
    float sum = 0.0f;
    for (int i = threadIdx.x; i < gridDim.x; i += THREADS)
        sum += partial[i];
    const float whole = sqrtf(block_sum(sum));
    if (blockIdx.x == 0 && threadIdx.x == 0)
        norm[0] = whole;
    const float by = fminf(1.0f, limit / (whole + 1e-6f));
    if (by == 1.0f)
        return;
    uint4 *values = reinterpret_cast<uint4 *>(gradient);
    const int eights = count / 8, stride = gridDim.x * THREADS, first = blockIdx.x * THREADS + threadIdx.x;
    if (first < count % 8)
        gradient[eights * 8 + first] = __float2bfloat16(__bfloat162float(gradient[eights * 8 + first]) * by);
#pragma unroll 4
    for (int i = eights - 1 - first; i >= 0; i -= stride) {
        uint4 own = __ldcs(values + i);
#pragma unroll
        for (int j = 0; j < 4; j++)
            reinterpret_cast<__nv_bfloat162 *>(&own)[j] =
                __floats2bfloat162_rn(at(own, j).x * by, at(own, j).y * by);
        __stcs(values + i, own);
    }
}
