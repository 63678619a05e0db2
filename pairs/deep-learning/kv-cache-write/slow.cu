#include <cuda_bf16.h>

#define DIM 128
#define HALF (DIM / 2)

extern "C" __global__ void rotate(const __nv_bfloat16 *k, const int *positions, const float *cos_table,
                                  const float *sin_table, __nv_bfloat16 *rotated, int tokens, int heads)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= tokens * heads * HALF)
        return;
    const int i = at % HALF, token = at / HALF / heads;
    const size_t first = (size_t)(at / HALF) * DIM + i;
    const float c = cos_table[positions[token] * HALF + i], s = sin_table[positions[token] * HALF + i];
    const float x = __bfloat162float(k[first]), y = __bfloat162float(k[first + HALF]);
    rotated[first] = __float2bfloat16(x * c - y * s);
    rotated[first + HALF] = __float2bfloat16(y * c + x * s);
}

extern "C" __global__ void scatter(const __nv_bfloat16 *from, const int *slots, __nv_bfloat16 *cache, int tokens,
                                   int heads)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= tokens * heads * DIM)
        return;
    const int i = at % (heads * DIM), token = at / (heads * DIM);
    cache[(size_t)slots[token] * heads * DIM + i] = from[at];
}
