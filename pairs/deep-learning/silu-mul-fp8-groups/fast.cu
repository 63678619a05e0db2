#include <cuda_bf16.h>

#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ unsigned to_fp8_pair(float low, float high)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

// Sixteen lanes a group of 128, eight elements each: the group's maximum is found by shuffles.
extern "C" __global__ void __launch_bounds__(256)
    silu_mul_quantize(const bf16 *__restrict__ x, unsigned char *__restrict__ out, float *__restrict__ scale,
                      int groups_per_token, int groups)
{
    const int group = blockIdx.x * 16 + threadIdx.x / 16, lane = threadIdx.x % 16;
    const bool inside = group < groups;
    const int token = group / groups_per_token, dim = groups_per_token * 16;
    const size_t from = static_cast<size_t>(token) * 2 * dim + (group - token * groups_per_token) * 16 + lane;
    uint4 gate = make_uint4(0, 0, 0, 0), up = gate;
    if (inside) {
        gate = __ldcs(reinterpret_cast<const uint4 *>(x) + from);
        up = __ldcs(reinterpret_cast<const uint4 *>(x) + from + dim);
    }
    float y[8], largest = 0.0f;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 g = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&gate)[j]);
        const float2 u = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&up)[j]);
        y[2 * j] = silu(g.x) * u.x;
        y[2 * j + 1] = silu(g.y) * u.y;
        largest = fmaxf(largest, fmaxf(fabsf(y[2 * j]), fabsf(y[2 * j + 1])));
    }
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, offset));
    if (!inside)
        return;
    const float step = largest / 448.0f, by = __fdividef(1.0f, fmaxf(step, 1e-12f));
    unsigned part[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        part[j] = to_fp8_pair(y[2 * j] * by, y[2 * j + 1] * by);
    __stcs(reinterpret_cast<uint2 *>(out) + static_cast<size_t>(group) * 16 + lane,
           make_uint2(part[0] | part[1] << 16, part[2] | part[3] << 16));
    if (lane == 0)
        scale[group] = step;
}
