#include <cuda_fp16.h>

#define THREADS 256

extern "C" __global__ void causal_softmax(const half *in, half *out, int n, float scale)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x, row = blockIdx.x % n;
    const half *from = in + (size_t)blockIdx.x * n;
    float largest = -60000.0f;
    for (int i = tid; i < n; i += THREADS)
        if (i <= row)
            largest = fmaxf(largest, __half2float(from[i]) * scale);
    part[tid] = largest;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] = fmaxf(part[tid], part[tid + stride]);
        __syncthreads();
    }
    largest = part[0];
    __syncthreads();
    float sum = 0.0f;
    for (int i = tid; i < n; i += THREADS)
        if (i <= row)
            sum += expf(__half2float(from[i]) * scale - largest);
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    for (int i = tid; i < n; i += THREADS)
        out[(size_t)blockIdx.x * n + i] =
            __float2half(i <= row ? expf(__half2float(from[i]) * scale - largest) / part[0] : 0.0f);
}
