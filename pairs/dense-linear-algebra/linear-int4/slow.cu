#include <cuda_fp16.h>

#define TILE 64
#define DEPTH 16
#define THREADS 256
#define GROUP 128

__device__ float weight(const unsigned char *b, const half *scales, int row, int i, int k)
{
    unsigned char both = b[((size_t)row * k + i) / 2];
    int code = i % 2 ? both >> 4 : both & 15;
    return (code - 8) * __half2float(scales[(size_t)row * (k / GROUP) + i / GROUP]);
}

extern "C" __global__ void linear(const half *a, const unsigned char *b, const half *scales, half *c, int m, int n,
                                  int k)
{
    __shared__ float left[DEPTH][TILE + 1], right[DEPTH][TILE + 1];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    float sum[4][4] = {};
    for (int base = 0; base < k; base += DEPTH) {
        for (int item = threadIdx.x; item < TILE * DEPTH; item += THREADS) {
            int i = item / DEPTH, j = item % DEPTH;
            left[j][i] = row + i < m ? __half2float(a[(size_t)(row + i) * k + base + j]) : 0.0f;
            right[j][i] = col + i < n ? weight(b, scales, col + i, base + j, k) : 0.0f;
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
                c[(size_t)i * n + j] = __float2half(sum[r][s]);
        }
}
