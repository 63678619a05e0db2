#include <cuda_bf16.h>

#define TILE 64
#define DEPTH 16
#define THREADS 256

extern "C" __global__ void weight_gradient(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int m,
                                           int n, int k)
{
    __shared__ float left[DEPTH][TILE], right[DEPTH][TILE];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    a += (size_t)blockIdx.z * k * m;
    b += (size_t)blockIdx.z * k * n;
    c += (size_t)blockIdx.z * m * n;
    float sum[4][4] = {};
    for (int base = 0; base < k; base += DEPTH) {
        for (int item = threadIdx.x; item < TILE * DEPTH; item += THREADS) {
            int i = item / TILE, j = item % TILE;
            bool inside = base + i < k;
            left[i][j] = inside && row + j < m ? __bfloat162float(a[(size_t)(base + i) * m + row + j]) : 0.0f;
            right[i][j] = inside && col + j < n ? __bfloat162float(b[(size_t)(base + i) * n + col + j]) : 0.0f;
        }
        __syncthreads();
        for (int i = 0; i < DEPTH; i++)
            for (int r = 0; r < 4; r++)
                for (int s = 0; s < 4; s++)
                    sum[r][s] += left[i][y + 16 * r] * right[i][x + 16 * s];
        __syncthreads();
    }
    for (int r = 0; r < 4; r++)
        for (int s = 0; s < 4; s++) {
            int i = row + y + 16 * r, j = col + x + 16 * s;
            if (i < m && j < n)
                c[(size_t)i * n + j] = __float2bfloat16(sum[r][s]);
        }
}
