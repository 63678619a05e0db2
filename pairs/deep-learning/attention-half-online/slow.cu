#include <cuda_fp16.h>

#define DIM 64
#define THREADS 256

extern "C" __global__ void scores(const half *q, const half *k, float *s, int n, float scale)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int head = blockIdx.z;
    if (i >= n || j >= n)
        return;
    const half *left = q + (head * n + i) * DIM;
    const half *right = k + (head * n + j) * DIM;
    float sum = 0.0f;
    for (int d = 0; d < DIM; d++)
        sum += __half2float(left[d]) * __half2float(right[d]);
    s[((size_t)head * n + i) * n + j] = sum * scale;
}

extern "C" __global__ void softmax(float *s, int n)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    float *row = s + (size_t)blockIdx.x * n;
    float largest = row[0];
    for (int j = tid; j < n; j += THREADS)
        largest = fmaxf(largest, row[j]);
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
    for (int j = tid; j < n; j += THREADS) {
        float value = expf(row[j] - largest);
        row[j] = value;
        sum += value;
    }
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    sum = part[0];
    for (int j = tid; j < n; j += THREADS)
        row[j] /= sum;
}

extern "C" __global__ void weighted(const float *s, const half *v, half *out, int n)
{
    int d = threadIdx.x;
    int i = blockIdx.x * blockDim.y + threadIdx.y;
    int head = blockIdx.y;
    if (i >= n)
        return;
    const float *row = s + ((size_t)head * n + i) * n;
    float sum = 0.0f;
    for (int j = 0; j < n; j++)
        sum += row[j] * __half2float(v[(head * n + j) * DIM + d]);
    out[(head * n + i) * DIM + d] = __float2half(sum);
}
