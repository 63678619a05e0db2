#include <cuda_bf16.h>

#define THREADS 128
#define WARPS (THREADS / 32)
#define HELD 4
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    const unsigned word = reinterpret_cast<const unsigned *>(&bits)[j];
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

__device__ __forceinline__ unsigned to_fp8_pair(float low, float high)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}

// x: the sum, y: the maximum.
__device__ __forceinline__ float2 block_merge(float2 value)
{
    __shared__ float2 parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, offset);
        value.y = fmaxf(value.y, __shfl_xor_sync(ALL, value.y, offset));
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++)
        value = make_float2(value.x + parts[warp].x, fmaxf(value.y, parts[warp].y));
    return value;
}

// The largest |x * rstd * weight| is rstd times the largest |x * weight|: one reduction finds both. A thread keeps 32
// products in registers, so that each is made once and the reduction costs little beside them.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    rmsnorm_fp8(const bf16 *__restrict__ x, const bf16 *__restrict__ weight, unsigned char *__restrict__ out,
                float *__restrict__ scale, int cols, float eps)
{
    const size_t first = static_cast<size_t>(blockIdx.x) * cols;
    const int groups = cols / 8;
    const bool held = cols % 8 == 0 && groups <= HELD * THREADS;
    float2 both = make_float2(0.0f, 0.0f);
    float product[HELD][8];
    if (held) {
        uint4 own[HELD];
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const int i = threadIdx.x + u * THREADS;
            own[u] = i < groups ? __ldcs(reinterpret_cast<const uint4 *>(x + first) + i) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const int i = threadIdx.x + u * THREADS;
            const uint4 by = __ldg(reinterpret_cast<const uint4 *>(weight) + min(i, groups - 1));
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 v = at(own[u], j), w = at(by, j);
                product[u][2 * j] = v.x * w.x;
                product[u][2 * j + 1] = v.y * w.y;
                both.x = fmaf(v.x, v.x, fmaf(v.y, v.y, both.x));
                both.y = fmaxf(both.y, fmaxf(fabsf(product[u][2 * j]), fabsf(product[u][2 * j + 1])));
            }
        }
    } else {
        for (int i = threadIdx.x; i < cols; i += THREADS) {
            const float v = __bfloat162float(x[first + i]);
            both.x = fmaf(v, v, both.x);
            both.y = fmaxf(both.y, fabsf(v * __bfloat162float(weight[i])));
        }
    }
    both = block_merge(both);
    const float rstd = rsqrtf(__fdividef(both.x, cols) + eps), step = rstd * both.y * (1.0f / 448.0f);
    const float times = __fdividef(rstd, fmaxf(step, 1e-12f));
    if (threadIdx.x == 0)
        scale[blockIdx.x] = step;
    if (held) {
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const int i = threadIdx.x + u * THREADS;
            if (i >= groups)
                continue;
            unsigned part[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                part[j] = to_fp8_pair(product[u][2 * j] * times, product[u][2 * j + 1] * times);
            __stcs(reinterpret_cast<uint2 *>(out + first) + i,
                   make_uint2(part[0] | part[1] << 16, part[2] | part[3] << 16));
        }
    } else {
        for (int i = threadIdx.x; i < cols; i += THREADS) {
            const float v = __bfloat162float(x[first + i]) * __bfloat162float(weight[i]) * times;
            out[first + i] = static_cast<unsigned char>(to_fp8_pair(v, 0.0f));
        }
    }
}
