#include <cuda_fp16.h>

extern "C" __global__ void scale_add(const __half *a, const __half *b, __half *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = __float2half(1.5f * __half2float(a[i]) + __half2float(b[i]));
}
