#include <cuda_fp16.h>

extern "C" __global__ void distances(const __half *x, const __half *y, float *out, int m, int n, int k)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n)
        return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++) {
        float d = __half2float(x[(size_t)row * k + i]) - __half2float(y[(size_t)col * k + i]);
        sum += d * d;
    }
    out[(size_t)row * n + col] = sum;
}
