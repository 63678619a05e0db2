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

extern "C" __global__ void bias_residual(const float *sums, const float *bias, const __nv_bfloat16 *residual,
                                         __nv_bfloat16 *c, int m, int n)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= n)
        return;
    const size_t at = (size_t)i * n + j;
    c[at] = __float2bfloat16(sums[at] + bias[j] + __bfloat162float(residual[at]));
}
