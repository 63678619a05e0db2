#include <cuda_bf16.h>

extern "C" __global__ void gemm(const float *a, const float *b, float *c, int m, int n, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n)
        return;
    __nv_bfloat16 sum = __float2bfloat16(0.0f);
    for (int i = 0; i < k; i++)
        sum = __float2bfloat16(__bfloat162float(sum) + a[row * k + i] * b[i * n + col]);
    c[row * n + col] = __bfloat162float(sum);
}
