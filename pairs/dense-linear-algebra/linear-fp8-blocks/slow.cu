#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define TILE 32
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
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    const int blocks = (k + BLOCK - 1) / BLOCK;
    float sum = 0.0f;
    for (int base = 0; base < k; base += TILE) {
        const int depth = base + x, block = depth / BLOCK;
        left[y][x] = 0.0f;
        right[y][x] = 0.0f;
        if (depth < k && row + y < m)
            left[y][x] = decode(a[(size_t)(row + y) * k + depth]) * a_scale[(size_t)(row + y) * blocks + block];
        if (depth < k && col + y < n)
            right[y][x] = decode(b[(size_t)(col + y) * k + depth]) * b_scale[(col + y) / BLOCK * blocks + block];
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += left[y][i] * right[x][i];
        __syncthreads();
    }
    if (row + y < m && col + x < n)
        c[(size_t)(row + y) * n + col + x] = __float2bfloat16(sum);
}
