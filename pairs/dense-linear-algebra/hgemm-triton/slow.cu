#include <cuda_fp16.h>

#define TILE 32

extern "C" __global__ void hgemm(const half *a, const half *b, float *c, int m, int n, int k)
{
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int col = blockIdx.x * TILE + x;
    int row = blockIdx.y * TILE + y;
    float sum = 0.0f;
    for (int base = 0; base < k; base += TILE) {
        left[y][x] = row < m && base + x < k ? __half2float(a[row * k + base + x]) : 0.0f;
        right[y][x] = col < n && base + y < k ? __half2float(b[(base + y) * n + col]) : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    if (row < m && col < n)
        c[row * n + col] = sum;
}
