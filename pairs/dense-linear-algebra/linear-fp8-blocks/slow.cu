#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define TILE 64
#define DEPTH 16
#define THREADS 256
#define BLOCK 128

__device__ float decode(unsigned char code)
{
    unsigned int pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)code));
    return __half2float(__ushort_as_half((unsigned short)pair));
}

extern "C" __global__ void linear(const unsigned char *a, const unsigned char *b, const float *a_scale,
                                  const float *b_scale, __nv_bfloat16 *c, int m, int n, int k)
{
    __shared__ float left[DEPTH][TILE + 1], right[DEPTH][TILE + 1];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    const int blocks = (k + BLOCK - 1) / BLOCK;
    float sum[4][4] = {};
    for (int base = 0; base < k; base += DEPTH) {
        for (int item = threadIdx.x; item < TILE * DEPTH; item += THREADS) {
            int i = item / DEPTH, j = item % DEPTH;
            int block = (base + j) / BLOCK;
            left[j][i] = 0.0f;
            right[j][i] = 0.0f;
            if (base + j < k && row + i < m)
                left[j][i] = decode(a[(size_t)(row + i) * k + base + j]) * a_scale[(size_t)(row + i) * blocks + block];
            if (base + j < k && col + i < n)
                right[j][i] = decode(b[(size_t)(col + i) * k + base + j]) * b_scale[(col + i) / BLOCK * blocks + block];
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
