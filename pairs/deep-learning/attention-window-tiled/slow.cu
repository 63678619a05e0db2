#include <cuda_bf16.h>

#define DIM 64
#define PAIRS 1
#define WARPS 4

__device__ float2 pair(const __nv_bfloat16 *row, int at)
{
    return __bfloat1622float2(((const __nv_bfloat162 *)row)[at]);
}

// A warp for each query; each lane has 2 of the 64 features.
extern "C" __global__ void attention(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v,
                                     const float *sinks, __nv_bfloat16 *out, int n, int window, int kv_heads,
                                     int group, float scale)
{
    const int lane = threadIdx.x % 32;
    const int i = blockIdx.x * WARPS + threadIdx.x / 32, head = blockIdx.y;
    if (i >= n)
        return;
    const size_t at = ((size_t)i * kv_heads * group + head) * DIM;
    const __nv_bfloat16 *query = q + at;
    const size_t first = (size_t)(head / group) * DIM, stride = (size_t)kv_heads * DIM;
    float2 mine[PAIRS], sum[PAIRS] = {};
    for (int c = 0; c < PAIRS; c++)
        mine[c] = pair(query, lane + 32 * c);
    float largest = sinks[head], total = 1.0f;
    for (int j = max(i - window + 1, 0); j <= i; j++) {
        const __nv_bfloat16 *key = k + first + j * stride;
        const __nv_bfloat16 *value = v + first + j * stride;
        float score = 0.0f;
        for (int c = 0; c < PAIRS; c++) {
            float2 part = pair(key, lane + 32 * c);
            score += mine[c].x * part.x + mine[c].y * part.y;
        }
        for (int offset = 16; offset > 0; offset /= 2)
            score += __shfl_xor_sync(0xffffffff, score, offset);
        score *= scale;
        float top = fmaxf(largest, score);
        float shrink = expf(largest - top), weight = expf(score - top);
        largest = top;
        total = total * shrink + weight;
        for (int c = 0; c < PAIRS; c++) {
            float2 part = pair(value, lane + 32 * c);
            sum[c].x = sum[c].x * shrink + weight * part.x;
            sum[c].y = sum[c].y * shrink + weight * part.y;
        }
    }
    for (int c = 0; c < PAIRS; c++)
        ((__nv_bfloat162 *)(out + at))[lane + 32 * c] = __floats2bfloat162_rn(sum[c].x / total, sum[c].y / total);
}
