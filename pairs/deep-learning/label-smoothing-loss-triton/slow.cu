#include <cuda_fp16.h>

#define THREADS 256

extern "C" __global__ void log_softmax(const half *logits, float *logs, int classes)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    const half *row = logits + (size_t)blockIdx.x * classes;
    float largest = __half2float(row[0]);
    for (int i = tid; i < classes; i += THREADS)
        largest = fmaxf(largest, __half2float(row[i]));
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
    for (int i = tid; i < classes; i += THREADS)
        sum += expf(__half2float(row[i]) - largest);
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    for (int i = tid; i < classes; i += THREADS)
        logs[(size_t)blockIdx.x * classes + i] = __half2float(row[i]) - largest - logf(part[0]);
}

extern "C" __global__ void smoothed(const float *logs, const int *labels, float *loss, int classes, float smoothing)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    const float *row = logs + (size_t)blockIdx.x * classes;
    float sum = 0.0f;
    for (int i = tid; i < classes; i += THREADS)
        sum += row[i];
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        loss[blockIdx.x] = -(1.0f - smoothing) * row[labels[blockIdx.x]] - smoothing * part[0] / classes;
}
