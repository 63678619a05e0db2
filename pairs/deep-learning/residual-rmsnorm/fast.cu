#include <cuda_fp16.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define HELD 2
#define ALL 0xffffffffu

struct __align__(16) Eight {
    half2 part[4];
};

__device__ __forceinline__ float block_sum(float value)
{
    __shared__ float parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++)
        value += parts[warp];
    return value;
}

__device__ __forceinline__ Eight load(const half *from, int i)
{
    const uint4 bits = __ldcs(reinterpret_cast<const uint4 *>(from) + i);
    return *reinterpret_cast<const Eight *>(&bits);
}

__device__ __forceinline__ void store(half *to, int i, const Eight &value)
{
    __stcs(reinterpret_cast<uint4 *>(to) + i, *reinterpret_cast<const uint4 *>(&value));
}

__device__ __forceinline__ void row_held(const half *__restrict__ x, const half *__restrict__ weight,
                                         half *__restrict__ residual, half *__restrict__ out, int cols, float eps)
{
    const int groups = cols / 8;
    Eight held[HELD], other[HELD];
    float sum = 0.0f;
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        if (i < groups) {
            held[u] = load(residual, i);
            other[u] = load(x, i);
        }
    }
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        if (i >= groups)
            continue;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 p = __half22float2(held[u].part[j]), q = __half22float2(other[u].part[j]);
            held[u].part[j] = __floats2half2_rn(p.x + q.x, p.y + q.y);
            const float2 value = __half22float2(held[u].part[j]);
            sum = fmaf(value.x, value.x, sum);
            sum = fmaf(value.y, value.y, sum);
        }
        store(residual, i, held[u]);
    }
    const float scale = rsqrtf(block_sum(sum) / cols + eps);
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        if (i >= groups)
            continue;
        const Eight w = *(reinterpret_cast<const Eight *>(weight) + i);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 value = __half22float2(held[u].part[j]), by = __half22float2(w.part[j]);
            held[u].part[j] = __floats2half2_rn(value.x * scale * by.x, value.y * scale * by.y);
        }
        store(out, i, held[u]);
    }
}

__device__ __forceinline__ void row_any(const half *__restrict__ x, const half *__restrict__ weight,
                                        half *__restrict__ residual, half *__restrict__ out, int cols, float eps)
{
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += THREADS) {
        const half both = __float2half(__half2float(residual[i]) + __half2float(x[i]));
        residual[i] = both;
        sum = fmaf(__half2float(both), __half2float(both), sum);
    }
    const float scale = rsqrtf(block_sum(sum) / cols + eps);
    for (int i = threadIdx.x; i < cols; i += THREADS)
        out[i] = __float2half(__half2float(residual[i]) * scale * __half2float(weight[i]));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    rmsnorm(const half *__restrict__ x, const half *__restrict__ weight, half *__restrict__ residual,
            half *__restrict__ out, int cols, float eps)
{
    const int first = blockIdx.x * cols;
    if (cols % 8 == 0 && cols <= 8 * HELD * THREADS)
        row_held(x + first, weight, residual + first, out + first, cols, eps);
    else
        row_any(x + first, weight, residual + first, out + first, cols, eps);
}
