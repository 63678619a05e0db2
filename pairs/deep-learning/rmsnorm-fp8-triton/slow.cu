#include <cuda_bf16.h>

#define THREADS 256

__device__ unsigned char to_fp8(float value)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    return (unsigned char)(pair & 0xff);
}

extern "C" __global__ void rmsnorm(const __nv_bfloat16 *x, const __nv_bfloat16 *weight, float *y, int cols, float eps)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    size_t first = (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int i = tid; i < cols; i += THREADS) {
        float value = __bfloat162float(x[first + i]);
        sum += value * value;
    }
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    float rstd = 1.0f / sqrtf(part[0] / cols + eps);
    for (int i = tid; i < cols; i += THREADS)
        y[first + i] = __bfloat162float(x[first + i]) * rstd * __bfloat162float(weight[i]);
}

extern "C" __global__ void row_scale(const float *y, float *scale, int cols)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    float largest = 0.0f;
    for (int i = tid; i < cols; i += THREADS)
        largest = fmaxf(largest, fabsf(y[(size_t)blockIdx.x * cols + i]));
    part[tid] = largest;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] = fmaxf(part[tid], part[tid + stride]);
        __syncthreads();
    }
    if (tid == 0)
        scale[blockIdx.x] = part[0] / 448.0f;
}

extern "C" __global__ void quantize(const float *y, const float *scale, unsigned char *out, int cols, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = to_fp8(y[i] / fmaxf(scale[i / cols], 1e-12f));
}
