#include <cuda_bf16.h>

#define THREADS 128

extern "C" __global__ void decode_linear(const __nv_bfloat16 *x, const __nv_bfloat16 *w, float *sums, int m, int n,
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
        sums[(size_t)token * n + row] = parts[0];
}

extern "C" __global__ void swiglu(const float *gate, const float *up, __nv_bfloat16 *y, int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        y[i] = __float2bfloat16(gate[i] / (1.0f + expf(-gate[i])) * up[i]);
}
