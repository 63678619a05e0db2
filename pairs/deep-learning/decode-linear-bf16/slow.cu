#include <cuda_bf16.h>

#define THREADS 128

extern "C" __global__ void decode_linear(const __nv_bfloat16 *x, const __nv_bfloat16 *w, __nv_bfloat16 *y, int m, int n,
                                         int k)
{
    __shared__ float parts[THREADS];
    const int row = blockIdx.x, token = blockIdx.y;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < k; i += THREADS)
        sum += __bfloat162float(w[(size_t)row * k + i]) * __bfloat162float(x[(size_t)token * k + i]);
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        y[(size_t)token * n + row] = __float2bfloat16(parts[0]);
}
