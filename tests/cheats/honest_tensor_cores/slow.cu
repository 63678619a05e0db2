#include <cuda_fp16.h>

extern "C" __global__ void product(const __half *a, const __half *b, float *c, int m, int n, int k)
{
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || col >= n)
        return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++)
        sum += __half2float(a[row * k + i]) * __half2float(b[col * k + i]);
    c[row * n + col] = sum;
}
