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

extern "C" __global__ void shares(const __nv_bfloat16 *logits, const float *largest, float *mass, int vocab,
                                  float temperature, float least)
{
    int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= vocab)
        return;
    size_t at = (size_t)blockIdx.x * vocab + i;
    float power = expf((__bfloat162float(logits[at]) - largest[blockIdx.x]) / temperature);
    mass[at] = power >= least ? power : 0.0f;
}

// Each thread sums a stretch of the row; the one whose stretch holds the target walks it.
extern "C" __global__ void sample(const float *mass, const float *uniform, int *token, int vocab)
{
    __shared__ double sums[THREADS];
    const float *row = mass + (size_t)blockIdx.x * vocab;
    int tid = threadIdx.x, each = (vocab + THREADS - 1) / THREADS;
    int begin = min(vocab, tid * each), end = min(vocab, begin + each);
    double sum = 0.0;
    for (int i = begin; i < end; i++)
        sum += row[i];
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
        before += row[i];
        if (target < before) {
            token[blockIdx.x] = i;
            return;
        }
    }
}
