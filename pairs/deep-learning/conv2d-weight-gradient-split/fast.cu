#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

#define THREADS 128
#define TILE 64
#define DEPTH 32

extern "C" __global__ void im2col(const __nv_bfloat16 *in, __nv_bfloat16 *columns, int h, int w, int c)
{
    int i = blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
    if (i >= 9 * c)
        return;
    int tap = i / c, channel = i % c;
    int image = row / (h * w), y = row / w % h + tap / 3 - 1, x = row % w + tap % 3 - 1;
    bool inside = y >= 0 && y < h && x >= 0 && x < w;
    columns[(size_t)row * 9 * c + i] =
        inside ? in[(((size_t)image * h + y) * w + x) * c + channel] : __float2bfloat16(0.0f);
}

// The product of the transposed gradient with the columns; a block sums over a share of the pixels.
extern "C" __global__ void weight_gradient(const __nv_bfloat16 *dy, const __nv_bfloat16 *columns,
                                           float *partial, int m, int n, int pixels, int share)
{
    __shared__ __align__(32) __nv_bfloat16 left[DEPTH][TILE];
    __shared__ __align__(32) __nv_bfloat16 right[DEPTH][TILE];
    __shared__ __align__(32) float result[TILE][TILE];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    const int warp = threadIdx.x / 32;
    const int v = warp / 2 * 32, u = warp % 2 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            wmma::fill_fragment(sum[i][j], 0.0f);

    const int end = min(pixels, (int)(blockIdx.z + 1) * share);
    for (int base = blockIdx.z * share; base < end; base += DEPTH) {
        for (int item = threadIdx.x; item < TILE * DEPTH; item += THREADS) {
            int i = item / TILE, j = item % TILE;
            bool inside = base + i < end;
            left[i][j] = inside && row + j < m ? dy[(size_t)(base + i) * m + row + j] : __float2bfloat16(0.0f);
            right[i][j] = inside && col + j < n ? columns[(size_t)(base + i) * n + col + j] : __float2bfloat16(0.0f);
        }
        __syncthreads();
        for (int i = 0; i < DEPTH; i += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::col_major> p[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> q[2];
            for (int r = 0; r < 2; r++)
                wmma::load_matrix_sync(p[r], &left[i][v + 16 * r], TILE);
            for (int s = 0; s < 2; s++)
                wmma::load_matrix_sync(q[s], &right[i][u + 16 * s], TILE);
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
            partial[((size_t)blockIdx.z * m + row + i) * n + col + j] = result[i][j];
    }
}

extern "C" __global__ void add_parts(const float *partial, __nv_bfloat16 *dweights, int parts, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float sum = 0.0f;
    for (int part = 0; part < parts; part++)
        sum += partial[(size_t)part * count + i];
    dweights[i] = __float2bfloat16(sum);
}
