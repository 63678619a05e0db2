#include <cuda_bf16.h>

#define TILE 32
#define WORDS 8

extern "C" __global__ void linear(const char4 *a, const char4 *b, const float *row_scale, const float *col_scale,
                                  __nv_bfloat16 *c, int m, int n, int k)
{
    __shared__ int left[TILE][WORDS + 1], right[TILE][WORDS + 1];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    const int words = k / 4;
    int sum = 0;
    for (int base = 0; base < words; base += WORDS) {
        if (x < WORDS) {
            bool inside = base + x < words;
            char4 zero = make_char4(0, 0, 0, 0);
            char4 p = inside && row + y < m ? a[(size_t)(row + y) * words + base + x] : zero;
            char4 q = inside && col + y < n ? b[(size_t)(col + y) * words + base + x] : zero;
            left[y][x] = *(int *)&p;
            right[y][x] = *(int *)&q;
        }
        __syncthreads();
        for (int i = 0; i < WORDS; i++)
            sum = __dp4a(left[y][i], right[x][i], sum);
        __syncthreads();
    }
    if (row + y < m && col + x < n)
        c[(size_t)(row + y) * n + col + x] = __float2bfloat16(sum * row_scale[row + y] * col_scale[col + x]);
}
