#include <cuda_fp16.h>

#define BLOCK 64
#define COLS 64
#define DEPTH 16

// A row of blocks by 64 columns, sixteen deep at a time in shared memory; 4x4 outputs per thread.
extern "C" __global__ void __launch_bounds__(256)
    multiply(const int *__restrict__ offsets, const int *__restrict__ columns, const __half *__restrict__ blocks,
             const __half *__restrict__ b, float *__restrict__ c, int n)
{
    __shared__ __align__(16) float left[DEPTH][BLOCK + 4];
    __shared__ __align__(16) float right[DEPTH][COLS];
    const int col = blockIdx.x * COLS;
    const int y = threadIdx.x / 16 * 4, x = threadIdx.x % 16 * 4;
    float sum[4][4] = {};
    for (int e = offsets[blockIdx.y]; e < offsets[blockIdx.y + 1]; e++) {
        const __half *block = blocks + static_cast<size_t>(e) * BLOCK * BLOCK;
        const __half *rows = b + static_cast<size_t>(columns[e]) * BLOCK * n;
        for (int depth = 0; depth < BLOCK; depth += DEPTH) {
#pragma unroll
            for (int part = 0; part < 4; part++) {
                const int item = threadIdx.x + part * 256;
                left[item % DEPTH][item / DEPTH] = __half2float(block[item / DEPTH * BLOCK + depth + item % DEPTH]);
                const int k = item / COLS, j = col + item % COLS;
                right[k][item % COLS] = j < n ? __half2float(rows[static_cast<size_t>(depth + k) * n + j]) : 0.0f;
            }
            __syncthreads();
#pragma unroll
            for (int k = 0; k < DEPTH; k++) {
                const float4 p = *reinterpret_cast<const float4 *>(&left[k][y]);
                const float4 q = *reinterpret_cast<const float4 *>(&right[k][x]);
                const float down[4] = {p.x, p.y, p.z, p.w}, across[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
                for (int r = 0; r < 4; r++)
#pragma unroll
                    for (int s = 0; s < 4; s++)
                        sum[r][s] += down[r] * across[s];
            }
            __syncthreads();
        }
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 4; s++)
            if (col + x + s < n)
                c[static_cast<size_t>(blockIdx.y * BLOCK + y + r) * n + col + x + s] = sum[r][s];
}
