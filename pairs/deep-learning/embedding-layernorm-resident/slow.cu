#include <cuda_bf16.h>

#define ROWS 4
#define HELD 4
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ void row_any(const bf16 *__restrict__ word, const bf16 *__restrict__ position,
                                        const float *__restrict__ weight, const float *__restrict__ bias,
                                        bf16 *__restrict__ out, int dim, int lane, float eps)
{
    float sum = 0.0f, squares = 0.0f;
    for (int i = lane; i < dim; i += 32)
        sum += __bfloat162float(word[i]) + __bfloat162float(position[i]);
    const float mean = warp_sum(sum) / dim;
    for (int i = lane; i < dim; i += 32) {
        const float d = __bfloat162float(word[i]) + __bfloat162float(position[i]) - mean;
        squares = fmaf(d, d, squares);
    }
    const float rstd = rsqrtf(warp_sum(squares) / dim + eps);
    for (int i = lane; i < dim; i += 32) {
        const float d = __bfloat162float(word[i]) + __bfloat162float(position[i]) - mean;
        out[i] = __float2bfloat16(fmaf(d * rstd, weight[i], bias[i]));
    }
}

// A warp a row: gathered, added and normalised in registers.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    embed(const int *__restrict__ tokens, const bf16 *__restrict__ table, const bf16 *__restrict__ positions,
          const float *__restrict__ weight, const float *__restrict__ bias, bf16 *__restrict__ out, int rows,
          int length, int dim, float eps)
{
    const int row = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const bf16 *word = table + static_cast<size_t>(tokens[row]) * dim;
    const bf16 *position = positions + static_cast<size_t>(row % length) * dim;
    bf16 *to = out + static_cast<size_t>(row) * dim;
    if (dim % 8 != 0 || dim > 256 * HELD) {
        row_any(word, position, weight, bias, to, dim, lane, eps);
        return;
    }
    const int groups = dim / 8;
    uint4 own[HELD], add[HELD];
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = lane + 32 * u;
        own[u] = i < groups ? reinterpret_cast<const uint4 *>(word)[i] : make_uint4(0, 0, 0, 0);
        add[u] = i < groups ? reinterpret_cast<const uint4 *>(position)[i] : make_uint4(0, 0, 0, 0);
    }
    float value[HELD][8], sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int u = 0; u < HELD; u++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            value[u][2 * j] = at(own[u], j).x + at(add[u], j).x;
            value[u][2 * j + 1] = at(own[u], j).y + at(add[u], j).y;
            sum += value[u][2 * j] + value[u][2 * j + 1];
        }
    const float mean = warp_sum(sum) / dim;
#pragma unroll
    for (int u = 0; u < HELD; u++)
        if (lane + 32 * u < groups)
#pragma unroll
            for (int j = 0; j < 8; j++)
                squares = fmaf(value[u][j] - mean, value[u][j] - mean, squares);
    const float rstd = rsqrtf(warp_sum(squares) / dim + eps);
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = lane + 32 * u;
        if (i >= groups)
            continue;
        uint4 result;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 w = reinterpret_cast<const float2 *>(weight)[4 * i + j];
            const float2 b = reinterpret_cast<const float2 *>(bias)[4 * i + j];
            reinterpret_cast<__nv_bfloat162 *>(&result)[j] =
                __floats2bfloat162_rn(fmaf((value[u][2 * j] - mean) * rstd, w.x, b.x),
                                      fmaf((value[u][2 * j + 1] - mean) * rstd, w.y, b.y));
        }
        __stcs(reinterpret_cast<uint4 *>(to) + i, result);
    }
}
