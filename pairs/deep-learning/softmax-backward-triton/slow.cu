#include <cuda_bf16.h>

#define THREADS 256

extern "C" __global__ void row_dot(const __nv_bfloat16 *y, const __nv_bfloat16 *dy, float *dots, int cols)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    float sum = 0.0f;
    for (int i = tid; i < cols; i += THREADS) {
        size_t at = (size_t)blockIdx.x * cols + i;
        sum += __bfloat162float(y[at]) * __bfloat162float(dy[at]);
    }
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        dots[blockIdx.x] = part[0];
}

extern "C" __global__ void apply(const __nv_bfloat16 *y, const __nv_bfloat16 *dy, const float *dots, __nv_bfloat16 *dx,
                                 int cols, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        dx[i] = __float2bfloat16(__bfloat162float(y[i]) * (__bfloat162float(dy[i]) - dots[i / cols]));
}
