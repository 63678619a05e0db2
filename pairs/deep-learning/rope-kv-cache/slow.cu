#include <cuda_bf16.h>

extern "C" __global__ void rotate(__nv_bfloat16 *x, const float *cos, const float *sin, int heads, int half_dim,
                                  int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int pair = i % half_dim, head = i / half_dim % heads, token = i / half_dim / heads;
    size_t at = ((size_t)token * heads + head) * 2 * half_dim + pair;
    float first = __bfloat162float(x[at]), second = __bfloat162float(x[at + half_dim]);
    float c = cos[token * half_dim + pair], s = sin[token * half_dim + pair];
    x[at] = __float2bfloat16(first * c - second * s);
    x[at + half_dim] = __float2bfloat16(second * c + first * s);
}

extern "C" __global__ void write_cache(const __nv_bfloat16 *x, const int *slots, __nv_bfloat16 *cache, int width,
                                       int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        cache[(size_t)slots[i / width] * width + i % width] = x[i];
}
