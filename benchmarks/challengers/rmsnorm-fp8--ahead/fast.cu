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

// x: the sum, y: the maximum. Calls in turn use different halves of the shared array, so one barrier is enough.
__device__ __forceinline__ float2 block_merge(float2 value, int turn)
{
    __shared__ float2 parts[2][WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, offset);
        value.y = fmaxf(value.y, __shfl_xor_sync(ALL, value.y, offset));
    }
    if (threadIdx.x % 32 == 0)
        parts[turn][threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[turn][0];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++)
        value = make_float2(value.x + parts[turn][warp].x, fmaxf(value.y, parts[turn][warp].y));
    return value;
}

struct Scales {
    float step, times;
};

__device__ __forceinline__ Scales scales_of(float2 both, int cols, float eps)
{
    const float rstd = rsqrtf(__fdividef(both.x, cols) + eps), step = rstd * both.y * (1.0f / 448.0f);
    return {step, __fdividef(rstd, fmaxf(step, 1e-12f))};
}

__device__ __forceinline__ void load(uint4 (&own)[HELD], const bf16 *__restrict__ x, int row, int groups)
{
    const uint4 *from = reinterpret_cast<const uint4 *>(x) + static_cast<size_t>(row) * groups;
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        own[u] = i < groups ? __ldcs(from + i) : make_uint4(0, 0, 0, 0);
    }
}

__device__ __forceinline__ void rows_held(const bf16 *__restrict__ x, const bf16 *__restrict__ weight,
                                          unsigned char *__restrict__ out, float *__restrict__ scale, int rows,
                                          int cols, float eps)
{
    const int groups = cols / 8;
    uint4 own[HELD], by[HELD];
#pragma unroll
    for (int u = 0; u < HELD; u++)
        by[u] = __ldg(reinterpret_cast<const uint4 *>(weight) + min(threadIdx.x + u * THREADS, groups - 1));
    load(own, x, blockIdx.x, groups);
    int turn = 0;
    for (int row = blockIdx.x; row < rows; row += gridDim.x, turn ^= 1) {
        float product[HELD][8];
        float2 both = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int u = 0; u < HELD; u++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 v = at(own[u], j), w = at(by[u], j);
                product[u][2 * j] = v.x * w.x;
                product[u][2 * j + 1] = v.y * w.y;
                both.x = fmaf(v.x, v.x, fmaf(v.y, v.y, both.x));
                both.y = fmaxf(both.y, fmaxf(fabsf(product[u][2 * j]), fabsf(product[u][2 * j + 1])));
            }
        if (row + gridDim.x < rows)
            load(own, x, row + gridDim.x, groups);
        const Scales by_row = scales_of(block_merge(both, turn), cols, eps);
        if (threadIdx.x == 0)
            scale[row] = by_row.step;
        uint2 *to = reinterpret_cast<uint2 *>(out) + static_cast<size_t>(row) * groups;
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const int i = threadIdx.x + u * THREADS;
            if (i >= groups)
                continue;
            unsigned part[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                part[j] = to_fp8_pair(product[u][2 * j] * by_row.times, product[u][2 * j + 1] * by_row.times);
            __stcs(to + i, make_uint2(part[0] | part[1] << 16, part[2] | part[3] << 16));
        }
    }
}

__device__ __forceinline__ void rows_any(const bf16 *__restrict__ x, const bf16 *__restrict__ weight,
                                         unsigned char *__restrict__ out, float *__restrict__ scale, int rows, int cols,
                                         float eps)
{
    int turn = 0;
    for (int row = blockIdx.x; row < rows; row += gridDim.x, turn ^= 1) {
        const size_t first = static_cast<size_t>(row) * cols;
        float2 both = make_float2(0.0f, 0.0f);
        for (int i = threadIdx.x; i < cols; i += THREADS) {
            const float v = __bfloat162float(x[first + i]);
            both.x = fmaf(v, v, both.x);
            both.y = fmaxf(both.y, fabsf(v * __bfloat162float(weight[i])));
        }
        const Scales by_row = scales_of(block_merge(both, turn), cols, eps);
        if (threadIdx.x == 0)
            scale[row] = by_row.step;
        for (int i = threadIdx.x; i < cols; i += THREADS) {
            const float v = __bfloat162float(x[first + i]) * __bfloat162float(weight[i]) * by_row.times;
            out[first + i] = static_cast<unsigned char>(to_fp8_pair(v, 0.0f));
        }
    }
}

// The largest |x * rstd * weight| is rstd times the largest |x * weight|: one reduction finds both. Resident blocks
// hold their weights, and a row is on its way while the one before it is reduced and written.
extern "C" __global__ void __launch_bounds__(THREADS, 5)
    rmsnorm_fp8(const bf16 *__restrict__ x, const bf16 *__restrict__ weight, unsigned char *__restrict__ out,
                float *__restrict__ scale, int rows, int cols, float eps)
{
    if (cols % 8 == 0 && cols <= 8 * HELD * THREADS)
        rows_held(x, weight, out, scale, rows, cols, eps);
    else
        rows_any(x, weight, out, scale, rows, cols, eps);
}
