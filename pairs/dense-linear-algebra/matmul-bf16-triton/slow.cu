#include <cuda_bf16.h>

#define TILE 64
#define DEPTH 16
#define THREADS 256

extern "C" __global__ void matmul(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int m, int n, int k)
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
            int d = item / TILE, e = item % TILE;
            right[d][e] = base + d < k && col + e < n ? __bfloat162float(b[(size_t)(base + d) * n + col + e]) : 0.0f;
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
                c[(size_t)i * n + j] = __float2bfloat16(sum[r][s]);
        }
}
