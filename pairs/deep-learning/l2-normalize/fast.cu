#include <cuda_bf16.h>

#define ROWS 8
#define HELD 4
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ float squares(const uint4 &bits, float sum)
{
#pragma unroll
    for (int j = 0; j < 4; j++)
        sum = fmaf(at(bits, j).x, at(bits, j).x, fmaf(at(bits, j).y, at(bits, j).y, sum));
    return sum;
}

__device__ __forceinline__ uint4 scaled(const uint4 &bits, float by)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++)
        reinterpret_cast<__nv_bfloat162 *>(&result)[j] =
            __floats2bfloat162_rn(at(bits, j).x * by, at(bits, j).y * by);
    return result;
}

__device__ __forceinline__ float inverse(float sum, float eps)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    return 1.0f / fmaxf(sqrtf(sum), eps);
}

extern "C" __global__ void __launch_bounds__(32 * ROWS)
    normalize(const bf16 *__restrict__ x, bf16 *__restrict__ out, int rows, int cols, float eps)
{
    const int row = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const size_t first = static_cast<size_t>(row) * cols;
    float sum = 0.0f;
    if (cols % 8 != 0) {
        for (int i = lane; i < cols; i += 32)
            sum = fmaf(__bfloat162float(x[first + i]), __bfloat162float(x[first + i]), sum);
        const float by = inverse(sum, eps);
        for (int i = lane; i < cols; i += 32)
            out[first + i] = __float2bfloat16(__bfloat162float(x[first + i]) * by);
        return;
    }
    const int groups = cols / 8;
    const uint4 *from = reinterpret_cast<const uint4 *>(x + first);
    uint4 *to = reinterpret_cast<uint4 *>(out + first);
    if (groups <= 32 * HELD) {
        uint4 own[HELD];
#pragma unroll
        for (int u = 0; u < HELD; u++)
            own[u] = lane + 32 * u < groups ? __ldcs(from + lane + 32 * u) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int u = 0; u < HELD; u++)
            sum = squares(own[u], sum);
        const float by = inverse(sum, eps);
#pragma unroll
        for (int u = 0; u < HELD; u++)
            if (lane + 32 * u < groups)
                __stcs(to + lane + 32 * u, scaled(own[u], by));
        return;
    }
#pragma unroll 4
    for (int i = lane; i < groups; i += 32)
        sum = squares(from[i], sum);
    const float by = inverse(sum, eps);
#pragma unroll 4
    for (int i = lane; i < groups; i += 32)
        __stcs(to + i, scaled(from[i], by));
}
