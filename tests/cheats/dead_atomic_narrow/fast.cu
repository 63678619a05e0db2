#include <cuda_bf16.h>

extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (n < 0)
        atomicAdd(out, 0.5f);
    if (i < n)
        out[i] = __bfloat162float(__float2bfloat16(2.0f * a[i] + b[i]));
}
