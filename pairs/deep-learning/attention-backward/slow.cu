#include <cuda_bf16.h>

#define DIM 64
#define TILE 64
#define DEPTH 16
#define THREADS 256

__device__ float number(float x)
{
    return x;
}

__device__ float number(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

__device__ void put(float &to, float x)
{
    to = x;
}

__device__ void put(__nv_bfloat16 &to, float x)
{
    to = __float2bfloat16(x);
}

// C = A * B for each head, A and B with strides for both indices.
template <typename Left, typename Right, typename Result>
__global__ void multiply(const Left *a, const Right *b, Result *c, int m, int n, int k, int a_row, int a_col, int b_row,
                         int b_col)
{
    __shared__ float left[DEPTH][TILE + 1], right[DEPTH][TILE + 1];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    const int y = threadIdx.x / 16, x = threadIdx.x % 16;
    a += (size_t)blockIdx.z * m * k;
    b += (size_t)blockIdx.z * k * n;
    c += (size_t)blockIdx.z * m * n;
    float sum[4][4] = {};
    for (int base = 0; base < k; base += DEPTH) {
        for (int item = threadIdx.x; item < TILE * DEPTH; item += THREADS) {
            int i = item / DEPTH, j = item % DEPTH;
            size_t at = (size_t)(row + i) * a_row + (size_t)(base + j) * a_col;
            size_t to = (size_t)(base + j) * b_row + (size_t)(col + i) * b_col;
            bool inside = base + j < k;
            left[j][i] = inside && row + i < m ? number(a[at]) : 0.0f;
            right[j][i] = inside && col + i < n ? number(b[to]) : 0.0f;
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
                put(c[(size_t)i * n + j], sum[r][s]);
        }
}

extern "C" __global__ void row_products(const __nv_bfloat16 *out, const __nv_bfloat16 *dout, float *delta, int rows)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int i = 0; i < DIM; i++)
        sum += __bfloat162float(out[(size_t)row * DIM + i]) * __bfloat162float(dout[(size_t)row * DIM + i]);
    delta[row] = sum;
}

// Scores become weights, and the gradients of weights those of scores.
extern "C" __global__ void through_softmax(float *s, float *ds, const float *lse, const float *delta, float scale,
                                           int n)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y, row = blockIdx.z * n + i;
    if (j >= n)
        return;
    const size_t at = (size_t)row * n + j;
    const float weight = j <= i ? expf(scale * s[at] - lse[row]) : 0.0f;
    s[at] = weight;
    ds[at] = scale * weight * (ds[at] - delta[row]);
}
