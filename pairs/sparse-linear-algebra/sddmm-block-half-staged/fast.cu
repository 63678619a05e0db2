#include <cuda_fp16.h>

#define BLOCK 64
#define DEPTH 32
#define THREADS 256
#define ITEMS (BLOCK * BLOCK / THREADS)

// A block of threads for each block of the result stages both sides through shared memory, 32 columns at a time.
extern "C" __global__ void multiply(const int *offsets, const int *columns, const __half *a, const __half *b,
                                    float *out, int rows, int k)
{
    __shared__ __half left[BLOCK][DEPTH + 2];
    __shared__ __half right[BLOCK][DEPTH + 2];
    int e = blockIdx.x, block_row = 0;
    while (offsets[block_row + 1] <= e)
        block_row++;
    const __half *top = a + (size_t)block_row * BLOCK * k;
    const __half *side = b + (size_t)columns[e] * BLOCK * k;
    float sum[ITEMS] = {};
    for (int depth = 0; depth < k; depth += DEPTH) {
        for (int item = threadIdx.x; item < BLOCK * DEPTH; item += THREADS) {
            int i = item / DEPTH, d = item % DEPTH;
            bool inside = depth + d < k;
            left[i][d] = inside ? top[(size_t)i * k + depth + d] : __float2half(0.0f);
            right[i][d] = inside ? side[(size_t)i * k + depth + d] : __float2half(0.0f);
        }
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ITEMS; r++) {
            int item = threadIdx.x + r * THREADS;
            for (int d = 0; d < DEPTH; d++)
                sum[r] += __half2float(left[item / BLOCK][d]) * __half2float(right[item % BLOCK][d]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < ITEMS; r++)
        out[(size_t)e * BLOCK * BLOCK + threadIdx.x + r * THREADS] = sum[r];
}
