#include <cuda_bf16.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ float2 block_sums(float2 value)
{
    __shared__ float2 parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, offset);
        value.y += __shfl_xor_sync(ALL, value.y, offset);
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++) {
        value.x += parts[warp].x;
        value.y += parts[warp].y;
    }
    return value;
}

// The sums over one plane: of dy * (x - mean) and of dy.
extern "C" __global__ void __launch_bounds__(THREADS)
    plane_sums(const bf16 *__restrict__ x, const bf16 *__restrict__ dy, const float *__restrict__ mean,
               float2 *__restrict__ partial, int n, int channels, int space)
{
    const int channel = blockIdx.x % channels, image = blockIdx.x / channels;
    const size_t first = static_cast<size_t>(blockIdx.x) * space;
    const float middle = mean[channel];
    float2 sums = make_float2(0.0f, 0.0f);
    if (space % 8 == 0) {
        const uint4 *from = reinterpret_cast<const uint4 *>(x + first);
        const uint4 *grad = reinterpret_cast<const uint4 *>(dy + first);
#pragma unroll 4
        for (int i = threadIdx.x; i < space / 8; i += THREADS) {
            const uint4 a = from[i], g = grad[i];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 v = at(a, j), d = at(g, j);
                sums.x = fmaf(d.x, v.x - middle, fmaf(d.y, v.y - middle, sums.x));
                sums.y += d.x + d.y;
            }
        }
    } else {
        for (int i = threadIdx.x; i < space; i += THREADS) {
            const float d = __bfloat162float(dy[first + i]);
            sums.x = fmaf(d, __bfloat162float(x[first + i]) - middle, sums.x);
            sums.y += d;
        }
    }
    sums = block_sums(sums);
    if (threadIdx.x == 0)
        partial[channel * n + image] = sums;
}

// Planes in falling order, since the last ones are still in L2.
extern "C" __global__ void __launch_bounds__(THREADS)
    input_gradient(const bf16 *__restrict__ x, const bf16 *__restrict__ dy, const float *__restrict__ weight,
                   const float *__restrict__ mean, const float *__restrict__ rstd,
                   const float2 *__restrict__ partial, bf16 *__restrict__ dx, float *__restrict__ dweight,
                   float *__restrict__ dbias, int n, int channels, int space)
{
    const int plane = gridDim.x - 1 - blockIdx.x, channel = plane % channels;
    const size_t first = static_cast<size_t>(plane) * space;
    float2 sums = make_float2(0.0f, 0.0f);
    for (int i = threadIdx.x; i < n; i += THREADS) {
        sums.x += partial[channel * n + i].x;
        sums.y += partial[channel * n + i].y;
    }
    sums = block_sums(sums);
    const float scale = rstd[channel], count = static_cast<float>(n) * space;
    if (plane < channels && threadIdx.x == 0) {
        dweight[channel] = sums.x * scale;
        dbias[channel] = sums.y;
    }
    // dx = by * dy + slope * x + shift
    const float by = weight[channel] * scale, slope = -by * scale * scale * sums.x / count;
    const float shift = -by * sums.y / count - slope * mean[channel];
    if (space % 8 == 0) {
        const uint4 *from = reinterpret_cast<const uint4 *>(x + first);
        const uint4 *grad = reinterpret_cast<const uint4 *>(dy + first);
        uint4 *to = reinterpret_cast<uint4 *>(dx + first);
#pragma unroll 4
        for (int i = threadIdx.x; i < space / 8; i += THREADS) {
            const uint4 a = __ldcs(from + i), g = __ldcs(grad + i);
            uint4 result;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 v = at(a, j), d = at(g, j);
                reinterpret_cast<__nv_bfloat162 *>(&result)[j] = __floats2bfloat162_rn(
                    fmaf(by, d.x, fmaf(slope, v.x, shift)), fmaf(by, d.y, fmaf(slope, v.y, shift)));
            }
            __stcs(to + i, result);
        }
    } else {
        for (int i = threadIdx.x; i < space; i += THREADS)
            dx[first + i] = __float2bfloat16(
                fmaf(by, __bfloat162float(dy[first + i]), fmaf(slope, __bfloat162float(x[first + i]), shift)));
    }
}
