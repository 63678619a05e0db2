#include <cuda_fp16.h>

#define THREADS 256

__device__ float block_sum(float value, float *part)
{
    int tid = threadIdx.x;
    part[tid] = value;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    float sum = part[0];
    __syncthreads();
    return sum;
}

extern "C" __global__ void input_gradient(const half *x, const half *dy, const half *weight, half *dx, float *rstd,
                                          int cols, float eps)
{
    __shared__ float part[THREADS];
    const half *row = x + (size_t)blockIdx.x * cols, *grad = dy + (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += THREADS)
        sum += __half2float(row[i]) * __half2float(row[i]);
    float scale = 1.0f / sqrtf(block_sum(sum, part) / cols + eps);
    sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += THREADS)
        sum += __half2float(grad[i]) * __half2float(weight[i]) * __half2float(row[i]) * scale;
    float mean = block_sum(sum, part) / cols;
    for (int i = threadIdx.x; i < cols; i += THREADS) {
        float g = __half2float(grad[i]) * __half2float(weight[i]);
        dx[(size_t)blockIdx.x * cols + i] = __float2half(scale * (g - __half2float(row[i]) * scale * mean));
    }
    if (threadIdx.x == 0)
        rstd[blockIdx.x] = scale;
}

extern "C" __global__ void weight_gradient(const half *x, const half *dy, const float *rstd, float *dweight, int rows,
                                           int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cols)
        return;
    float sum = 0.0f;
    for (int row = 0; row < rows; row++)
        sum += __half2float(dy[(size_t)row * cols + i]) * __half2float(x[(size_t)row * cols + i]) * rstd[row];
    dweight[i] = sum;
}
