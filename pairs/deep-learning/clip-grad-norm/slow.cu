#include <cuda_bf16.h>

#define THREADS 256

extern "C" __global__ void squares(const __nv_bfloat16 *gradient, float *partial, int count)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x, i = blockIdx.x * THREADS + tid;
    float value = i < count ? __bfloat162float(gradient[i]) : 0.0f;
    part[tid] = value * value;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        partial[blockIdx.x] = part[0];
}

extern "C" __global__ void total(const float *partial, float *norm, int blocks)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    float sum = 0.0f;
    for (int i = tid; i < blocks; i += THREADS)
        sum += partial[i];
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        norm[0] = sqrtf(part[0]);
}

extern "C" __global__ void scale(__nv_bfloat16 *gradient, const float *norm, int count, float limit)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        gradient[i] = __float2bfloat16(__bfloat162float(gradient[i]) * fminf(1.0f, limit / (norm[0] + 1e-6f)));
}
