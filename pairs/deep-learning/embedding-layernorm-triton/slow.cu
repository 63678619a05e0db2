#include <cuda_bf16.h>

#define THREADS 256

extern "C" __global__ void gather(const int *tokens, const __nv_bfloat16 *table, const __nv_bfloat16 *positions,
                                  float *sums, int length, int dim, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int row = i / dim, col = i % dim;
    sums[i] = __bfloat162float(table[(size_t)tokens[row] * dim + col]) +
              __bfloat162float(positions[row % length * dim + col]);
}

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

extern "C" __global__ void layernorm(const float *sums, const float *weight, const float *bias, __nv_bfloat16 *out,
                                     int dim, float eps)
{
    __shared__ float part[THREADS];
    const float *row = sums + (size_t)blockIdx.x * dim;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < dim; i += THREADS)
        sum += row[i];
    float mean = block_sum(sum, part) / dim;
    sum = 0.0f;
    for (int i = threadIdx.x; i < dim; i += THREADS)
        sum += (row[i] - mean) * (row[i] - mean);
    float rstd = 1.0f / sqrtf(block_sum(sum, part) / dim + eps);
    for (int i = threadIdx.x; i < dim; i += THREADS)
        out[(size_t)blockIdx.x * dim + i] = __float2bfloat16((row[i] - mean) * rstd * weight[i] + bias[i]);
}
