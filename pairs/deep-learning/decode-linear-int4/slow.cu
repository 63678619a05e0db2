#include <cuda_fp16.h>

#define THREADS 128
#define GROUP 128

extern "C" __global__ void decode_linear(const half *x, const unsigned char *w, const half *scales, half *y, int m,
                                         int n, int k)
{
    __shared__ float parts[THREADS];
    const int row = blockIdx.x, token = blockIdx.y;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < k; i += THREADS) {
        unsigned char both = w[((size_t)row * k + i) / 2];
        int code = i % 2 ? both >> 4 : both & 15;
        float scale = __half2float(scales[(size_t)row * (k / GROUP) + i / GROUP]);
        sum += (code - 8) * scale * __half2float(x[(size_t)token * k + i]);
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        y[(size_t)token * n + row] = __float2half(parts[0]);
}
