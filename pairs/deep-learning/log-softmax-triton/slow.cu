#include <cuda_bf16.h>

#define THREADS 256

extern "C" __global__ void log_softmax(const __nv_bfloat16 *in, __nv_bfloat16 *out, int cols)
{
    __shared__ float part[THREADS];
    const __nv_bfloat16 *row = in + (size_t)blockIdx.x * cols;
    int tid = threadIdx.x;
    float largest = __bfloat162float(row[0]);
    for (int i = tid; i < cols; i += THREADS)
        largest = fmaxf(largest, __bfloat162float(row[i]));
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
    for (int i = tid; i < cols; i += THREADS)
        sum += expf(__bfloat162float(row[i]) - largest);
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    float shift = largest + logf(part[0]);
    for (int i = tid; i < cols; i += THREADS)
        out[(size_t)blockIdx.x * cols + i] = __float2bfloat16(__bfloat162float(row[i]) - shift);
}
