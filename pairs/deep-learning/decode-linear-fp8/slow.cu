#include <cuda_fp16.h>

#define THREADS 128

__device__ float decode(unsigned char code)
{
    unsigned int pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)code));
    return __half2float(__ushort_as_half((unsigned short)pair));
}

extern "C" __global__ void decode_linear(const half *x, const unsigned char *w, const float *scale, half *y, int m,
                                         int n, int k)
{
    __shared__ float parts[THREADS];
    const int row = blockIdx.x, token = blockIdx.y;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < k; i += THREADS)
        sum += decode(w[(size_t)row * k + i]) * __half2float(x[(size_t)token * k + i]);
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        y[(size_t)token * n + row] = __float2half(parts[0] * scale[row]);
}
