#include <cuda_fp16.h>

#define SIDE 32

extern "C" __global__ void multiply(const __half *a, const __half *b, float *c)
{
    size_t base = (size_t)blockIdx.x * SIDE * SIDE;
    float sum = 0.0f;
    for (int k = 0; k < SIDE; k++)
        sum += __half2float(a[base + threadIdx.y * SIDE + k]) * __half2float(b[base + k * SIDE + threadIdx.x]);
    c[base + threadIdx.y * SIDE + threadIdx.x] = sum;
}
