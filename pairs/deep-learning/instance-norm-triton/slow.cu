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

extern "C" __global__ void instance_norm(const half *in, const half *weight, const half *bias, half *out, int channels,
                                         int space, float eps, float slope)
{
    __shared__ float part[THREADS];
    const half *plane = in + (size_t)blockIdx.x * space;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < space; i += THREADS)
        sum += __half2float(plane[i]);
    float mean = block_sum(sum, part) / space;
    sum = 0.0f;
    for (int i = threadIdx.x; i < space; i += THREADS) {
        float d = __half2float(plane[i]) - mean;
        sum += d * d;
    }
    float rstd = 1.0f / sqrtf(block_sum(sum, part) / space + eps);
    int channel = blockIdx.x % channels;
    for (int i = threadIdx.x; i < space; i += THREADS) {
        float y = (__half2float(plane[i]) - mean) * rstd * __half2float(weight[channel]) + __half2float(bias[channel]);
        out[(size_t)blockIdx.x * space + i] = __float2half(y > 0.0f ? y : slope * y);
    }
}
