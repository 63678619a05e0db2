#include <cuda_bf16.h>

#define THREADS 256

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

__device__ int block_max(int value, int *part)
{
    int tid = threadIdx.x;
    part[tid] = value;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] = max(part[tid], part[tid + stride]);
        __syncthreads();
    }
    int result = part[0];
    __syncthreads();
    return result;
}

// The bits of a logit as an integer that is ordered as logits are, and back.
__device__ int key_of(__nv_bfloat16 x)
{
    int bits = __bfloat16_as_ushort(x);
    return bits & 0x8000 ? 0xffff - bits : bits | 0x8000;
}

__device__ float value_of(int key)
{
    return __bfloat162float(__ushort_as_bfloat16(key & 0x8000 ? key & 0x7fff : 0xffff - key));
}

// The k-th largest logit, bit by bit: a sweep for each bit counts how many logits reach a trial.
extern "C" __global__ void kth_largest(const __nv_bfloat16 *logits, float *largest, float *kth, int vocab, int k)
{
    __shared__ int part[THREADS];
    const __nv_bfloat16 *row = logits + (size_t)blockIdx.x * vocab;
    int first = 0, key = 0;
    for (int i = threadIdx.x; i < vocab; i += THREADS)
        first = max(first, key_of(row[i]));
    first = block_max(first, part);
    for (int bit = 15; bit >= 0; bit--) {
        int trial = key | 1 << bit, count = 0;
        for (int i = threadIdx.x; i < vocab; i += THREADS)
            count += key_of(row[i]) >= trial;
        if (block_count(count, part) >= k)
            key = trial;
    }
    if (threadIdx.x == 0) {
        largest[blockIdx.x] = value_of(first);
        kth[blockIdx.x] = value_of(key);
    }
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
