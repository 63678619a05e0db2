#include <cuda_bf16.h>

#define DIM 128
#define LANES 8
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ void unpack(const uint4 &bits, float (&to)[8])
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 pair = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
        to[2 * j] = pair.x;
        to[2 * j + 1] = pair.y;
    }
}

__device__ __forceinline__ uint4 pack(const float (&from)[8])
{
    uint4 bits;
#pragma unroll
    for (int j = 0; j < 4; j++)
        reinterpret_cast<__nv_bfloat162 *>(&bits)[j] = __floats2bfloat162_rn(from[2 * j], from[2 * j + 1]);
    return bits;
}

__device__ __forceinline__ void load_floats(const float *from, float (&to)[8])
{
    const float4 a = reinterpret_cast<const float4 *>(from)[0], b = reinterpret_cast<const float4 *>(from)[1];
    to[0] = a.x;
    to[1] = a.y;
    to[2] = a.z;
    to[3] = a.w;
    to[4] = b.x;
    to[5] = b.y;
    to[6] = b.z;
    to[7] = b.w;
}

// Eight lanes a head, each with eight elements of the first half and their partners of the second.
extern "C" __global__ void __launch_bounds__(256)
    norm_rope(bf16 *__restrict__ x, const bf16 *__restrict__ weight, const float *__restrict__ cos,
              const float *__restrict__ sin, int heads, int count, float eps)
{
    const int head = blockIdx.x * (256 / LANES) + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const bool inside = head < count;
    uint4 *own = reinterpret_cast<uint4 *>(x) + static_cast<size_t>(head) * (DIM / 8) + lane;
    uint4 low = make_uint4(0, 0, 0, 0), high = low;
    if (inside) {
        low = own[0];
        high = own[LANES];
    }
    float first[8], second[8], sum = 0.0f;
    unpack(low, first);
    unpack(high, second);
#pragma unroll
    for (int j = 0; j < 8; j++)
        sum = fmaf(first[j], first[j], fmaf(second[j], second[j], sum));
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    if (!inside)
        return;
    const float rstd = rsqrtf(sum * (1.0f / DIM) + eps);
    const size_t angles = static_cast<size_t>(head / heads) * (DIM / 2) + 8 * lane;
    float c[8], s[8], w[8], v[8];
    load_floats(cos + angles, c);
    load_floats(sin + angles, s);
    unpack(reinterpret_cast<const uint4 *>(weight)[lane], w);
    unpack(reinterpret_cast<const uint4 *>(weight)[lane + LANES], v);
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float a = first[j] * rstd * w[j], b = second[j] * rstd * v[j];
        first[j] = a * c[j] - b * s[j];
        second[j] = b * c[j] + a * s[j];
    }
    __stcs(own, pack(first));
    __stcs(own + LANES, pack(second));
}
