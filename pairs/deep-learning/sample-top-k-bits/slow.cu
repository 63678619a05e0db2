#include <cuda_bf16.h>

#define THREADS 256
#define BEYOND 3.4e38f

__device__ float block_max(float value, float *part)
{
    int tid = threadIdx.x;
    part[tid] = value;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] = fmaxf(part[tid], part[tid + stride]);
        __syncthreads();
    }
    float result = part[0];
    __syncthreads();
    return result;
}

__device__ int block_count(int value, int *part)
{
    int tid = threadIdx.x;
    part[tid] = value;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    int result = part[0];
    __syncthreads();
    return result;
}

// The k-th largest logit, by taking the largest that is below the last one until k are found.
extern "C" __global__ void kth_largest(const __nv_bfloat16 *logits, float *largest, float *kth, int vocab, int k)
{
    __shared__ float values[THREADS];
    __shared__ int counts[THREADS];
    const __nv_bfloat16 *row = logits + (size_t)blockIdx.x * vocab;
    float last = BEYOND;
    int found = 0;
    while (found < k) {
        float value = -BEYOND;
        for (int i = threadIdx.x; i < vocab; i += THREADS) {
            float x = __bfloat162float(row[i]);
            if (x < last)
                value = fmaxf(value, x);
        }
        value = block_max(value, values);
        int count = 0;
        for (int i = threadIdx.x; i < vocab; i += THREADS)
            count += __bfloat162float(row[i]) == value;
        if (found == 0 && threadIdx.x == 0)
            largest[blockIdx.x] = value;
        found += block_count(count, counts);
        last = value;
    }
    if (threadIdx.x == 0)
        kth[blockIdx.x] = last;
}

// Each thread sums a stretch of the row; the one whose stretch holds the target walks it.
extern "C" __global__ void sample(const __nv_bfloat16 *logits, const float *largest, const float *kth,
                                  const float *uniform, int *token, int vocab, float temperature)
{
    __shared__ double sums[THREADS];
    const __nv_bfloat16 *row = logits + (size_t)blockIdx.x * vocab;
    int tid = threadIdx.x, each = (vocab + THREADS - 1) / THREADS;
    int begin = min(vocab, tid * each), end = min(vocab, begin + each);
    double sum = 0.0;
    for (int i = begin; i < end; i++) {
        float x = __bfloat162float(row[i]);
        if (x >= kth[blockIdx.x])
            sum += expf((x - largest[blockIdx.x]) / temperature);
    }
    sums[tid] = sum;
    __syncthreads();
    double before = 0.0, whole = 0.0;
    for (int i = 0; i < THREADS; i++) {
        if (i < tid)
            before += sums[i];
        whole += sums[i];
    }
    double target = uniform[blockIdx.x] * whole;
    if (target < before || target >= before + sum)
        return;
    for (int i = begin; i < end; i++) {
        float x = __bfloat162float(row[i]);
        if (x < kth[blockIdx.x])
            continue;
        before += expf((x - largest[blockIdx.x]) / temperature);
        if (target < before) {
            token[blockIdx.x] = i;
            return;
        }
    }
}
