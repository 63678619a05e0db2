#include <cuda_bf16.h>

#define TILE 64
#define DEPTH 16
#define THREADS 256

extern "C" __global__ void linear(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *sums, int m, int n, int k)
{
    __shared__ float left[DEPTH][TILE + 1], right[DEPTH][TILE + 1];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    float sum[4][4] = {};
    for (int base = 0; base < k; base += DEPTH) {
        for (int item = threadIdx.x; item < TILE * DEPTH; item += THREADS) {
            int i = item / DEPTH, j = item % DEPTH;
            bool inside = base + j < k;
            left[j][i] = inside && row + i < m ? __bfloat162float(a[(size_t)(row + i) * k + base + j]) : 0.0f;
            right[j][i] = inside && col + i < n ? __bfloat162float(b[(size_t)(col + i) * k + base + j]) : 0.0f;
        }
        __syncthreads();
        for (int j = 0; j < DEPTH; j++)
            for (int r = 0; r < 4; r++)
                for (int s = 0; s < 4; s++)
                    sum[r][s] += left[j][y + 16 * r] * right[j][x + 16 * s];
        __syncthreads();
    }
    for (int r = 0; r < 4; r++)
        for (int s = 0; s < 4; s++) {
            int i = row + y + 16 * r, j = col + x + 16 * s;
            if (i < m && j < n)
                sums[(size_t)i * n + j] = sum[r][s];
        }
}

#define ROW_THREADS 256

__device__ float reduce(float value, bool largest, float *parts)
{
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int half = ROW_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            float other = parts[threadIdx.x + half];
            parts[threadIdx.x] = largest ? fmaxf(parts[threadIdx.x], other) : parts[threadIdx.x] + other;
        }
        __syncthreads();
    }
    value = parts[0];
    __syncthreads();
    return value;
}

extern "C" __global__ void cross_entropy(const float *logits, const int *labels, float *loss, int n)
{
    __shared__ float parts[ROW_THREADS];
    const float *row = logits + (size_t)blockIdx.x * n;
    float top = -1.0e30f, total = 0.0f;
    for (int j = threadIdx.x; j < n; j += ROW_THREADS)
        top = fmaxf(top, row[j]);
    top = reduce(top, true, parts);
    for (int j = threadIdx.x; j < n; j += ROW_THREADS)
        total += expf(row[j] - top);
    total = reduce(total, false, parts);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = logf(total) + top - row[labels[blockIdx.x]];
}
