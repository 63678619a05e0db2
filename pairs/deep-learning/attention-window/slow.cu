#include <cuda_bf16.h>

#define DIM 64
#define PER_LANE 2
#define WARPS 4

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
    float mine[PER_LANE], sum[PER_LANE] = {};
    for (int c = 0; c < PER_LANE; c++)
        mine[c] = scale * __bfloat162float(query[lane + 32 * c]);
    float largest = sinks[head], total = 1.0f;
    for (int j = max(i - window + 1, 0); j <= i; j++) {
        const __nv_bfloat16 *key = k + first + j * stride;
        const __nv_bfloat16 *value = v + first + j * stride;
        float score = 0.0f;
        for (int c = 0; c < PER_LANE; c++)
            score += mine[c] * __bfloat162float(key[lane + 32 * c]);
        for (int offset = 16; offset > 0; offset /= 2)
            score += __shfl_xor_sync(0xffffffff, score, offset);
        float top = fmaxf(largest, score);
        float shrink = expf(largest - top), weight = expf(score - top);
        largest = top;
        total = total * shrink + weight;
        for (int c = 0; c < PER_LANE; c++)
            sum[c] = sum[c] * shrink + weight * __bfloat162float(value[lane + 32 * c]);
    }
    for (int c = 0; c < PER_LANE; c++)
        (out + at)[lane + 32 * c] = __float2bfloat16(sum[c] / total);
}
