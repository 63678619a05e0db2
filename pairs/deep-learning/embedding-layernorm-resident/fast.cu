#include <cuda_bf16.h>

#define ROWS 4
#define LONGEST 1024
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

// A warp a position, for every `gridDim.y`-th row of the batch: the position's embedding, weights and biases stay in
// registers, and the next word is fetched while this one is normalised.
template <int HELD>
__global__ void __launch_bounds__(32 * ROWS)
    embed(const int *__restrict__ tokens, const bf16 *__restrict__ table, const bf16 *__restrict__ positions,
          const float *__restrict__ weight, const float *__restrict__ bias, bf16 *__restrict__ out, int batch,
          int length, int dim, float eps)
{
    const int position = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32, groups = dim / 8;
    if (position >= length)
        return;
    const bf16 *there = positions + static_cast<size_t>(position) * dim;
    if (dim % 8 != 0 || dim > LONGEST) {
        for (int b = blockIdx.y; b < batch; b += gridDim.y) {
            const int row = b * length + position;
            row_any(table + static_cast<size_t>(tokens[row]) * dim, there, weight, bias,
                    out + static_cast<size_t>(row) * dim, dim, lane, eps);
        }
        return;
    }
    const uint4 none = make_uint4(0, 0, 0, 0);
    uint4 add[HELD], next[HELD];
    float w[HELD][8], c[HELD][8];
    auto fetch = [&](int token) {
        const uint4 *word = reinterpret_cast<const uint4 *>(table + static_cast<size_t>(token) * dim);
#pragma unroll
        for (int u = 0; u < HELD; u++)
            next[u] = lane + 32 * u < groups ? __ldg(word + lane + 32 * u) : none;
    };
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = lane + 32 * u;
        add[u] = i < groups ? reinterpret_cast<const uint4 *>(there)[i] : none;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            w[u][j] = i < groups ? weight[8 * i + j] : 0.0f;
            c[u][j] = i < groups ? bias[8 * i + j] : 0.0f;
        }
    }
    int b = blockIdx.y;
    if (b >= batch)
        return;
    fetch(tokens[b * length + position]);
    int token = b + gridDim.y < batch ? tokens[(b + gridDim.y) * length + position] : 0;
    for (; b < batch; b += gridDim.y) {
        float value[HELD][8], sum = 0.0f, squares = 0.0f;
#pragma unroll
        for (int u = 0; u < HELD; u++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                value[u][2 * j] = at(next[u], j).x + at(add[u], j).x;
                value[u][2 * j + 1] = at(next[u], j).y + at(add[u], j).y;
                sum += value[u][2 * j] + value[u][2 * j + 1];
            }
        if (b + static_cast<int>(gridDim.y) < batch) {
            fetch(token);
            if (b + 2 * static_cast<int>(gridDim.y) < batch)
                token = tokens[(b + 2 * gridDim.y) * length + position];
        }
        const float mean = warp_sum(sum) / dim;
#pragma unroll
        for (int u = 0; u < HELD; u++)
            if (lane + 32 * u < groups)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    squares = fmaf(value[u][j] - mean, value[u][j] - mean, squares);
        const float rstd = rsqrtf(warp_sum(squares) / dim + eps);
        uint4 *to = reinterpret_cast<uint4 *>(out + static_cast<size_t>(b * length + position) * dim);
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            if (lane + 32 * u >= groups)
                continue;
            uint4 result;
#pragma unroll
            for (int j = 0; j < 4; j++)
                reinterpret_cast<__nv_bfloat162 *>(&result)[j] =
                    __floats2bfloat162_rn(fmaf((value[u][2 * j] - mean) * rstd, w[u][2 * j], c[u][2 * j]),
                                          fmaf((value[u][2 * j + 1] - mean) * rstd, w[u][2 * j + 1], c[u][2 * j + 1]));
            __stcs(to + lane + 32 * u, result);
        }
    }
}
