#include <cuda_bf16.h>

#define HEADS 16
#define WIDTH 576
#define DIM 512
#define WARPS 16

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
extern "C" __global__ void decode(const __nv_bfloat16 *q, const __nv_bfloat16 *latents, __nv_bfloat16 *out, int n,
                                  float scale)
{
    extern __shared__ float scores[];
    __shared__ float parts[WARPS];
    const int head = blockIdx.x, lane = threadIdx.x % 32;
    const __nv_bfloat16 *query = q + ((size_t)blockIdx.y * HEADS + head) * WIDTH;
    latents += (size_t)blockIdx.y * n * WIDTH;
    float largest = -1.0e30f;
    for (int j = threadIdx.x / 32; j < n; j += WARPS) {
        float sum = 0.0f;
        for (int i = lane; i < WIDTH; i += 32)
            sum += __bfloat162float(query[i]) * __bfloat162float(latents[(size_t)j * WIDTH + i]);
        for (int offset = 16; offset > 0; offset /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, offset);
        if (lane == 0)
            scores[j] = scale * sum;
        largest = fmaxf(largest, scale * sum);
    }
    largest = reduce(largest, true, parts);
    float total = 0.0f;
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        scores[j] = expf(scores[j] - largest);
        total += scores[j];
    }
    total = reduce(total, false, parts);
    float sum = 0.0f;
    for (int j = 0; j < n; j++)
        sum += scores[j] * __bfloat162float(latents[(size_t)j * WIDTH + threadIdx.x]);
    out[((size_t)blockIdx.y * HEADS + head) * DIM + threadIdx.x] = __float2bfloat16(sum / total);
}
