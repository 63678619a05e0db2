#include <cuda_bf16.h>

#define DIM 128
#define PAGE 16
#define GROUP 8
#define WARPS 4

__device__ float reduce(float value, bool largest, float *parts)
{
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_xor_sync(0xffffffff, value, offset);
        value = largest ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int warp = 1; warp < WARPS; warp++)
        value = largest ? fmaxf(value, parts[warp]) : value + parts[warp];
    return value;
}

// A block for each head: a warp for each key's score, then a thread for each feature.
extern "C" __global__ void decode(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v,
                                  const int *table, const int *lengths, __nv_bfloat16 *out, int max_pages, float scale)
{
    extern __shared__ float scores[];
    __shared__ float parts[WARPS];
    const int head = blockIdx.x, heads = gridDim.x, kv_heads = heads / GROUP, sequence = blockIdx.y;
    const int length = lengths[sequence], lane = threadIdx.x % 32;
    const size_t at = ((size_t)sequence * heads + head) * DIM;
    float largest = -1.0e30f;
    for (int j = threadIdx.x / 32; j < length; j += WARPS) {
        size_t token = (size_t)table[sequence * max_pages + j / PAGE] * PAGE + j % PAGE;
        const __nv_bfloat16 *key = k + (token * kv_heads + head / GROUP) * DIM;
        float sum = 0.0f;
        for (int i = lane; i < DIM; i += 32)
            sum += __bfloat162float(q[at + i]) * __bfloat162float(key[i]);
        for (int offset = 16; offset > 0; offset /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, offset);
        if (lane == 0)
            scores[j] = scale * sum;
        largest = fmaxf(largest, scale * sum);
    }
    largest = reduce(largest, true, parts);
    float total = 0.0f;
    for (int j = threadIdx.x; j < length; j += blockDim.x) {
        scores[j] = expf(scores[j] - largest);
        total += scores[j];
    }
    total = reduce(total, false, parts);
    float sum = 0.0f;
    for (int j = 0; j < length; j++) {
        size_t token = (size_t)table[sequence * max_pages + j / PAGE] * PAGE + j % PAGE;
        sum += scores[j] * __bfloat162float(v[(token * kv_heads + head / GROUP) * DIM + threadIdx.x]);
    }
    out[at + threadIdx.x] = __float2bfloat16(length > 0 ? sum / total : 0.0f);
}
