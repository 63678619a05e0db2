#include <cuda_fp16.h>

extern "C" __global__ void syrk(const __half *a, float *c, int n, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || col >= n)
        return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++)
        sum += __half2float(a[(size_t)row * k + i]) * __half2float(a[(size_t)col * k + i]);
    c[(size_t)row * n + col] = sum;
}
