#include <cuda_fp16.h>

#define TILE 64
#define DEPTH 32
#define THREADS 256
#define ITEMS (TILE * TILE / THREADS)

// A block of threads for each 64x64 tile stages both sides through shared memory, 32 columns at a time.
extern "C" __global__ void distances(const __half *x, const __half *y, float *out, int m, int n, int k)
{
    __shared__ __half left[TILE][DEPTH + 2];
    __shared__ __half right[TILE][DEPTH + 2];
    int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    float sum[ITEMS] = {};
    for (int depth = 0; depth < k; depth += DEPTH) {
        for (int item = threadIdx.x; item < TILE * DEPTH; item += THREADS) {
            int i = item / DEPTH, d = item % DEPTH;
            bool inside = depth + d < k;
            left[i][d] = inside && row + i < m ? x[(size_t)(row + i) * k + depth + d] : __float2half(0.0f);
            right[i][d] = inside && col + i < n ? y[(size_t)(col + i) * k + depth + d] : __float2half(0.0f);
        }
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ITEMS; r++) {
            int item = threadIdx.x + r * THREADS;
            for (int d = 0; d < DEPTH; d++) {
                float apart = __half2float(left[item / TILE][d]) - __half2float(right[item % TILE][d]);
                sum[r] += apart * apart;
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < ITEMS; r++) {
        int item = threadIdx.x + r * THREADS, i = row + item / TILE, j = col + item % TILE;
        if (i < m && j < n)
            out[(size_t)i * n + j] = sum[r];
    }
}
