#include <cuda_fp16.h>

extern "C" __global__ void scale_add(const __half *a, const __half *b, __half *out, int n)
{
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 1 < n) {
        __half2 x = *(const __half2 *)(a + i), y = *(const __half2 *)(b + i);
        *(__half2 *)(out + i) = __hfma2(__float2half2_rn(1.5f), x, y);
    } else if (i < n) {
        out[i] = __hfma(__float2half(1.5f), a[i], b[i]);
    }
}
