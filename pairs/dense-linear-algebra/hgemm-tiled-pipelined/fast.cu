#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda;

#define THREADS 128
#define ROWS 128
#define COLS 128
#define DEPTH 32
#define STAGES 4
#define LEFT_PITCH (DEPTH + 8)
#define RIGHT_PITCH (COLS + 8)
#define RESULT_PITCH 20
#define LEFT_SIZE (ROWS * LEFT_PITCH)
#define STAGE_SIZE (LEFT_SIZE + DEPTH * RIGHT_PITCH)

typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> Sum;

template <int HEIGHT, int WIDTH, int PITCH>
__device__ __forceinline__ void copy_tile(half *to, const half *__restrict__ from, int row, int rows, int col,
                                          int cols)
{
#pragma unroll
    for (int part = 0; part < HEIGHT * WIDTH / 8 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS;
        const int i = item / (WIDTH / 8), j = item % (WIDTH / 8) * 8;
        if (cols % 8 == 0) {
            const bool inside = row + i < rows && col + j < cols;
            const half *source = inside ? from + (row + i) * cols + col + j : from;
            __pipeline_memcpy_async(to + i * PITCH + j, source, 16, inside ? 0 : 16);
        } else {
            for (int s = 0; s < 8; s++) {
                const bool inside = row + i < rows && col + j + s < cols;
                to[i * PITCH + j + s] = inside ? from[(row + i) * cols + col + j + s] : __float2half(0.0f);
            }
        }
    }
}

__device__ __forceinline__ void multiply(Sum (*sum)[4], const half *left, const half *right, int y, int x)
{
#pragma unroll
    for (int i = 0; i < DEPTH; i += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p[4];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> q[4];
#pragma unroll
        for (int r = 0; r < 4; r++)
            wmma::load_matrix_sync(p[r], left + (y + 16 * r) * LEFT_PITCH + i, LEFT_PITCH);
#pragma unroll
        for (int s = 0; s < 4; s++)
            wmma::load_matrix_sync(q[s], right + i * RIGHT_PITCH + x + 16 * s, RIGHT_PITCH);
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int s = 0; s < 4; s++)
                wmma::mma_sync(sum[r][s], p[r], q[s], sum[r][s]);
    }
}

__device__ __forceinline__ void store_tile(float *__restrict__ c, const Sum &sum, float *room, int row, int col, int m,
                                           int n)
{
    if (n % 4 == 0 && row + 16 <= m && col + 16 <= n) {
        wmma::store_matrix_sync(c + row * n + col, sum, n, wmma::mem_row_major);
        return;
    }
    wmma::store_matrix_sync(room, sum, RESULT_PITCH, wmma::mem_row_major);
    __syncwarp();
    for (int item = threadIdx.x % 32; item < 256; item += 32) {
        const int i = item / 16, j = item % 16;
        if (row + i < m && col + j < n)
            c[(row + i) * n + col + j] = room[i * RESULT_PITCH + j];
    }
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    hgemm(const half *__restrict__ a, const half *__restrict__ b, float *__restrict__ c, int m, int n, int k)
{
    extern __shared__ __align__(128) half stages[];
    const int row = blockIdx.y * ROWS, col = blockIdx.x * COLS;
    const int warp = threadIdx.x / 32;
    const int y = warp / 2 * 64, x = warp % 2 * 64;
    const int tiles = (k + DEPTH - 1) / DEPTH;
    Sum sum[4][4];
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 4; s++)
            wmma::fill_fragment(sum[r][s], 0.0f);

    for (int tile = 0; tile < STAGES - 1; tile++) {
        half *stage = stages + tile * STAGE_SIZE;
        if (tile < tiles) {
            copy_tile<ROWS, DEPTH, LEFT_PITCH>(stage, a, row, m, tile * DEPTH, k);
            copy_tile<DEPTH, COLS, RIGHT_PITCH>(stage + LEFT_SIZE, b, tile * DEPTH, k, col, n);
        }
        __pipeline_commit();
    }
    for (int tile = 0; tile < tiles; tile++) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        const int next = tile + STAGES - 1;
        if (next < tiles) {
            half *stage = stages + next % STAGES * STAGE_SIZE;
            copy_tile<ROWS, DEPTH, LEFT_PITCH>(stage, a, row, m, next * DEPTH, k);
            copy_tile<DEPTH, COLS, RIGHT_PITCH>(stage + LEFT_SIZE, b, next * DEPTH, k, col, n);
        }
        __pipeline_commit();
        const half *stage = stages + tile % STAGES * STAGE_SIZE;
        multiply(sum, stage, stage + LEFT_SIZE, y, x);
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    float *room = reinterpret_cast<float *>(stages) + warp * 16 * RESULT_PITCH;
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 4; s++)
            store_tile(c, sum[r][s], room, row + y + 16 * r, col + x + 16 * s, m, n);
}
