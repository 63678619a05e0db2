#include <cuda_bf16.h>

#define THREADS 256

extern "C" __global__ void row_max(const __nv_bfloat16 *logits, float *largest, int vocab)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    const __nv_bfloat16 *row = logits + (size_t)blockIdx.x * vocab;
    float value = __bfloat162float(row[0]);
    for (int i = tid; i < vocab; i += THREADS)
        value = fmaxf(value, __bfloat162float(row[i]));
    part[tid] = value;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] = fmaxf(part[tid], part[tid + stride]);
        __syncthreads();
    }
    if (tid == 0)
        largest[blockIdx.x] = part[0];
}

extern "C" __global__ void row_sum(const __nv_bfloat16 *logits, const float *largest, const int *labels, float *sums,
                                   float *loss, int vocab)
{
    __shared__ float part[THREADS];
    int tid = threadIdx.x;
    const __nv_bfloat16 *row = logits + (size_t)blockIdx.x * vocab;
    float sum = 0.0f;
    for (int i = tid; i < vocab; i += THREADS)
        sum += expf(__bfloat162float(row[i]) - largest[blockIdx.x]);
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0) {
        sums[blockIdx.x] = part[0];
        loss[blockIdx.x] = logf(part[0]) + largest[blockIdx.x] - __bfloat162float(row[labels[blockIdx.x]]);
    }
}

extern "C" __global__ void gradient(__nv_bfloat16 *logits, const float *largest, const float *sums, const int *labels,
                                    int vocab, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (i >= vocab)
        return;
    size_t at = (size_t)row * vocab + i;
    float share = expf(__bfloat162float(logits[at]) - largest[row]) / sums[row];
    if (i == labels[row])
        share -= 1.0f;
    logits[at] = __float2bfloat16(share * scale);
}
