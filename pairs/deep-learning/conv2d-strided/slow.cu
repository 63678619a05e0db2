#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

#define THREADS 128
#define TILE 64
#define DEPTH 32

extern "C" __global__ void linear(const __nv_bfloat16 *x, const __nv_bfloat16 *w, float *sums, int m, int n, int k)
{
    __shared__ __align__(32) __nv_bfloat16 left[TILE][DEPTH];
    __shared__ __align__(32) __nv_bfloat16 right[TILE][DEPTH];
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
            left[i][j] = inside && row + i < m ? x[(size_t)(row + i) * k + base + j] : __float2bfloat16(0.0f);
            right[i][j] = inside && col + i < n ? w[(size_t)(col + i) * k + base + j] : __float2bfloat16(0.0f);
        }
        __syncthreads();
        for (int i = 0; i < DEPTH; i += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> p[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> q[2];
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

extern "C" __global__ void im2col(const __nv_bfloat16 *in, __nv_bfloat16 *columns, int h, int w, int c, int ho, int wo)
{
    int i = blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
    if (i >= 9 * c)
        return;
    int tap = i / c, channel = i % c;
    int image = row / (ho * wo), y = row / wo % ho * 2 - 1 + tap / 3, x = row % wo * 2 - 1 + tap % 3;
    bool inside = y >= 0 && y < h && x >= 0 && x < w;
    columns[(size_t)row * 9 * c + i] =
        inside ? in[(((size_t)image * h + y) * w + x) * c + channel] : __float2bfloat16(0.0f);
}

extern "C" __global__ void bias_relu(const float *sums, const float *bias, __nv_bfloat16 *out, int n, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = __float2bfloat16(fmaxf(sums[i] + bias[i % n], 0.0f));
}
