#include <cuda_bf16.h>

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

extern "C" __global__ void statistics(const __nv_bfloat16 *in, float *mean, float *rstd, int count, float eps)
{
    __shared__ float part[THREADS];
    const __nv_bfloat16 *group = in + (size_t)blockIdx.x * count;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += THREADS)
        sum += __bfloat162float(group[i]);
    float middle = block_sum(sum, part) / count;
    sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += THREADS) {
        float d = __bfloat162float(group[i]) - middle;
        sum += d * d;
    }
    sum = block_sum(sum, part);
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = middle;
        rstd[blockIdx.x] = 1.0f / sqrtf(sum / count + eps);
    }
}

extern "C" __global__ void apply(const __nv_bfloat16 *in, const float *mean, const float *rstd,
                                 const __nv_bfloat16 *weight, const __nv_bfloat16 *bias, __nv_bfloat16 *out,
                                 int channels, int space, int count, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total)
        return;
    int group = i / count, channel = i / space % channels;
    float normal = (__bfloat162float(in[i]) - mean[group]) * rstd[group];
    out[i] = __float2bfloat16(normal * __bfloat162float(weight[channel]) + __bfloat162float(bias[channel]));
}
