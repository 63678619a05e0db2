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

// The 65536 values of a bfloat16 in ascending order.
__device__ float value_of(int key)
{
    unsigned bits = key >= 0x8000 ? key - 0x8000 : 0xffff - key;
    return __uint_as_float(bits << 16);
}

__device__ double mass_from(const __nv_bfloat16 *row, float bound, float largest, float temperature, int vocab)
{
    __shared__ double part[THREADS];
    int tid = threadIdx.x;
    double sum = 0.0;
    for (int i = tid; i < vocab; i += THREADS) {
        float x = __bfloat162float(row[i]);
        if (x >= bound)
            sum += expf((x - largest) / temperature);
    }
    part[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    sum = part[0];
    __syncthreads();
    return sum;
}

// Bisection over all values for the largest bound that keeps enough mass.
extern "C" __global__ void find_bound(const __nv_bfloat16 *logits, const float *largest, float *bound, int vocab,
                                      float temperature, float share)
{
    const __nv_bfloat16 *row = logits + (size_t)blockIdx.x * vocab;
    float top = largest[blockIdx.x];
    double wanted = share * mass_from(row, -3.4e38f, top, temperature, vocab);
    int low = 0x80, high = 0xff80;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (mass_from(row, value_of(middle), top, temperature, vocab) >= wanted)
            low = middle;
        else
            high = middle;
    }
    if (threadIdx.x == 0)
        bound[blockIdx.x] = value_of(low);
}

// Each thread sums a stretch of the row; the one whose stretch holds the target walks it.
extern "C" __global__ void sample(const __nv_bfloat16 *logits, const float *largest, const float *bound,
                                  const float *uniform, int *token, int vocab, float temperature)
{
    __shared__ double sums[THREADS];
    const __nv_bfloat16 *row = logits + (size_t)blockIdx.x * vocab;
    int tid = threadIdx.x, each = (vocab + THREADS - 1) / THREADS;
    int begin = min(vocab, tid * each), end = min(vocab, begin + each);
    double sum = 0.0;
    for (int i = begin; i < end; i++) {
        float x = __bfloat162float(row[i]);
        if (x >= bound[blockIdx.x])
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
        if (x < bound[blockIdx.x])
            continue;
        before += expf((x - largest[blockIdx.x]) / temperature);
        if (target < before) {
            token[blockIdx.x] = i;
            return;
        }
    }
}
