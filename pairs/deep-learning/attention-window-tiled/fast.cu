#include <cuda_bf16.h>

#define DIM 64
#define TILE 32
#define THREADS 64

// A thread for each query, with its features and its result in registers; the keys and values that the block's
// windows touch come a tile at a time through shared memory.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v, const float *sinks,
              __nv_bfloat16 *out, int n, int window, int kv_heads, int group, float scale)
{
    __shared__ float4 keys[TILE][DIM / 4], values[TILE][DIM / 4];
    const int first = blockIdx.x * THREADS, head = blockIdx.y;
    const int i = min(first + (int)threadIdx.x, n - 1);
    const size_t at = ((size_t)i * kv_heads * group + head) * DIM;
    const size_t shared_head = (size_t)(head / group) * DIM, stride = (size_t)kv_heads * DIM;
    const int begin = max(i - window + 1, 0), high = min(first + THREADS, n);
    float query[DIM], sum[DIM];
#pragma unroll
    for (int d = 0; d < DIM; d++) {
        query[d] = scale * __bfloat162float(q[at + d]);
        sum[d] = 0.0f;
    }
    float largest = sinks[head], total = 1.0f;
    for (int base = max(first - window + 1, 0); base < high; base += TILE) {
        const int count = min(TILE, high - base);
        __syncthreads();
        for (int item = threadIdx.x; item < count * DIM; item += THREADS) {
            const size_t from = shared_head + (base + item / DIM) * stride + item % DIM;
            ((float *)keys)[item] = __bfloat162float(k[from]);
            ((float *)values)[item] = __bfloat162float(v[from]);
        }
        __syncthreads();
        for (int j = max(begin - base, 0); j < min(count, i + 1 - base); j++) {
            float score = 0.0f;
#pragma unroll
            for (int d = 0; d < DIM; d += 4) {
                const float4 part = keys[j][d / 4];
                score += query[d] * part.x + query[d + 1] * part.y + query[d + 2] * part.z + query[d + 3] * part.w;
            }
            if (score > largest) {
                const float shrink = expf(largest - score);
                largest = score;
                total *= shrink;
#pragma unroll
                for (int d = 0; d < DIM; d++)
                    sum[d] *= shrink;
            }
            const float weight = expf(score - largest);
            total += weight;
#pragma unroll
            for (int d = 0; d < DIM; d += 4) {
                const float4 part = values[j][d / 4];
                sum[d] += weight * part.x;
                sum[d + 1] += weight * part.y;
                sum[d + 2] += weight * part.z;
                sum[d + 3] += weight * part.w;
            }
        }
    }
    if (first + (int)threadIdx.x < n)
#pragma unroll
        for (int d = 0; d < DIM; d++)
            out[at + d] = __float2bfloat16(sum[d] / total);
}
