#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define THREADS 128
#define TILE 64
#define DEPTH 32

extern "C" __global__ void linear(const half *x, const half *w, float *sums, int m, int n, int k)
{
    __shared__ __align__(32) half left[TILE][DEPTH];
    __shared__ __align__(32) half right[TILE][DEPTH];
    __shared__ __align__(32) float result[TILE][TILE];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    const int warp = threadIdx.x / 32;
    const int v = warp / 2 * 32, u = warp % 2 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(sum[i][j], 0.0f);

    for (int base = 0; base < k; base += DEPTH) {
        for (int item = threadIdx.x; item < TILE * DEPTH; item += THREADS) {
            int i = item / DEPTH, j = item % DEPTH;
            bool inside = base + j < k;
            left[i][j] = inside && row + i < m ? x[(size_t)(row + i) * k + base + j] : __float2half(0.0f);
            right[i][j] = inside && col + i < n ? w[(size_t)(col + i) * k + base + j] : __float2half(0.0f);
        }
        __syncthreads();
        for (int i = 0; i < DEPTH; i += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> q[2];
            for (int r = 0; r < 2; r++)
                wmma::load_matrix_sync(p[r], &left[v + 16 * r][i], DEPTH);
            for (int s = 0; s < 2; s++)
                wmma::load_matrix_sync(q[s], &right[u + 16 * s][i], DEPTH);
            for (int r = 0; r < 2; r++)
                for (int s = 0; s < 2; s++)
                    wmma::mma_sync(sum[r][s], p[r], q[s], sum[r][s]);
        }
        __syncthreads();
    }
    for (int r = 0; r < 2; r++)
        for (int s = 0; s < 2; s++)
            wmma::store_matrix_sync(&result[v + 16 * r][u + 16 * s], sum[r][s], TILE, wmma::mem_row_major);
    __syncthreads();
    for (int item = threadIdx.x; item < TILE * TILE; item += THREADS) {
        int i = item / TILE, j = item % TILE;
        if (row + i < m && col + j < n)
            sums[(size_t)(row + i) * n + col + j] = result[i][j];
    }
}

extern "C" __global__ void bias_gelu(const float *sums, const float *bias, half *y, int m, int n)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (col >= n)
        return;
    float x = sums[(size_t)row * n + col] + bias[col];
    float u = 0.7978845608f * (x + 0.044715f * x * x * x);
    y[(size_t)row * n + col] = __float2half(0.5f * x * (1.0f + tanhf(u)));
}
