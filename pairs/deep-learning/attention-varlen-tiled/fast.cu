#include <cuda_bf16.h>

#define DIM 64
#define TILE 32
#define THREADS 64

// A thread for each query, with its features and its result in registers; keys and values come a tile at a time
// through shared memory. A block's keys are those of all sequences that its queries belong to.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const __nv_bfloat16 *q, const __nv_bfloat16 *k, const __nv_bfloat16 *v, const int *offsets,
              __nv_bfloat16 *out, int tokens, int heads, float scale)
{
    __shared__ float4 keys[TILE][DIM / 4], values[TILE][DIM / 4];
    const int i = min(blockIdx.x * THREADS + threadIdx.x, tokens - 1);
    const int last = min((blockIdx.x + 1) * THREADS, tokens) - 1;
    const size_t stride = (size_t)heads * DIM, head = (size_t)blockIdx.y * DIM;
    int sequence = 0;
    while (offsets[sequence + 1] <= (int)(blockIdx.x * THREADS))
        sequence++;
    const int low = offsets[sequence];
    while (offsets[sequence + 1] <= i)
        sequence++;
    const int begin = offsets[sequence], end = offsets[sequence + 1];
    while (offsets[sequence + 1] <= last)
        sequence++;
    const int high = offsets[sequence + 1];
    float query[DIM], sum[DIM];
#pragma unroll
    for (int d = 0; d < DIM; d++) {
        query[d] = scale * __bfloat162float(q[head + i * stride + d]);
        sum[d] = 0.0f;
    }
    float largest = -1.0e30f, total = 0.0f;
    for (int base = low; base < high; base += TILE) {
        const int count = min(TILE, high - base);
        __syncthreads();
        for (int item = threadIdx.x; item < count * DIM; item += THREADS) {
            const size_t at = head + (base + item / DIM) * stride + item % DIM;
            ((float *)keys)[item] = __bfloat162float(k[at]);
            ((float *)values)[item] = __bfloat162float(v[at]);
        }
        __syncthreads();
        for (int j = max(begin - base, 0); j < min(count, end - base); j++) {
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
    if (blockIdx.x * THREADS + threadIdx.x < tokens)
#pragma unroll
        for (int d = 0; d < DIM; d++)
            out[head + i * stride + d] = __float2bfloat16(sum[d] / total);
}
