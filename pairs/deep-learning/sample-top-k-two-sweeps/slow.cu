#include <cuda_bf16.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

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
    __shared__ int part[WARPS];
    const __nv_bfloat16 *row = logits + (size_t)blockIdx.x * vocab;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int first = 0, key = 0;
    for (int i = threadIdx.x; i < vocab; i += THREADS)
        first = max(first, key_of(row[i]));
    first = __reduce_max_sync(ALL, first);
    if (lane == 0)
        part[warp] = first;
    __syncthreads();
    for (int i = 0; i < WARPS; i++)
        first = max(first, part[i]);
    for (int bit = 15; bit >= 0; bit--) {
        int trial = key | 1 << bit, count = 0;
        for (int i = threadIdx.x; i < vocab; i += THREADS)
            count += key_of(row[i]) >= trial;
        count = __reduce_add_sync(ALL, count);
        __syncthreads();
        if (lane == 0)
            part[warp] = count;
        __syncthreads();
        count = 0;
        for (int i = 0; i < WARPS; i++)
            count += part[i];
        if (count >= k)
            key = trial;
    }
    if (threadIdx.x == 0) {
        largest[blockIdx.x] = value_of(first);
        kth[blockIdx.x] = value_of(key);
    }
}

// Each warp sums a stretch of the row, 32 neighbours at a time; the one whose stretch holds the target walks it.
extern "C" __global__ void sample(const __nv_bfloat16 *logits, const float *largest, const float *kth,
                                  const float *uniform, int *token, int vocab, float temperature)
{
    __shared__ double sums[WARPS];
    const __nv_bfloat16 *row = logits + (size_t)blockIdx.x * vocab;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, each = (vocab + WARPS - 1) / WARPS;
    int begin = min(vocab, warp * each), end = min(vocab, begin + each);
    float least = kth[blockIdx.x], most = largest[blockIdx.x];
    double sum = 0.0;
    for (int i = begin + lane; i < end; i += 32) {
        float x = __bfloat162float(row[i]);
        if (x >= least)
            sum += expf((x - most) / temperature);
    }
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    double before = 0.0, whole = 0.0;
    for (int i = 0; i < WARPS; i++) {
        if (i < warp)
            before += sums[i];
        whole += sums[i];
    }
    double target = uniform[blockIdx.x] * whole;
    if (target < before || target >= before + sums[warp])
        return;
    for (int i = begin; i < end; i += 32) {
        float x = i + lane < end ? __bfloat162float(row[i + lane]) : 0.0f;
        double upto = i + lane < end && x >= least ? expf((x - most) / temperature) : 0.0f;
        for (int offset = 1; offset < 32; offset *= 2) {
            double other = __shfl_up_sync(ALL, upto, offset);
            if (lane >= offset)
                upto += other;
        }
        unsigned past = __ballot_sync(ALL, target < before + upto);
        if (past != 0) {
            if (lane == 0)
                token[blockIdx.x] = i + __ffs(past) - 1;
            return;
        }
        before += __shfl_sync(ALL, upto, 31);
    }
}
