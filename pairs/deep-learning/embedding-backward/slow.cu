#include <cuda_bf16.h>

extern "C" __global__ void scatter(const int *tokens, const __nv_bfloat16 *gradient, float *table, int dim)
{
    int i = blockIdx.y * blockDim.x + threadIdx.x, at = blockIdx.x;
    if (i < dim)
        atomicAdd(&table[(size_t)tokens[at] * dim + i], __bfloat162float(gradient[(size_t)at * dim + i]));
}
