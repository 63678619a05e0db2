#include <cuda_fp16.h>

#define THREADS 256

extern "C" __global__ void add(const half *x, half *residual, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        residual[i] = __float2half(__half2float(residual[i]) + __half2float(x[i]));
}

extern "C" __global__ void row_scale(const half *residual, float *scale, int cols, float eps)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    float sum = 0.0f;
    for (int i = tid; i < cols; i += THREADS) {
        float value = __half2float(residual[blockIdx.x * cols + i]);
        sum += value * value;
    }
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        scale[blockIdx.x] = 1.0f / sqrtf(part[0] / cols + eps);
}

extern "C" __global__ void apply(const half *residual, const float *scale, const half *weight, half *out, int cols,
                                 int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = __float2half(__half2float(residual[i]) * scale[i / cols] * __half2float(weight[i % cols]));
}
