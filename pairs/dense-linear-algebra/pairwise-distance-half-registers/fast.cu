#include <cuda_fp16.h>

#define TILE 64
#define DEPTH 16

// Both sides of a 64x64 tile in shared memory, converted once; 4x4 distances per thread.
extern "C" __global__ void __launch_bounds__(256)
    distances(const __half *__restrict__ x, const __half *__restrict__ y, float *__restrict__ out, int m, int n, int k)
{
    __shared__ __align__(16) float left[DEPTH][TILE + 4];
    __shared__ __align__(16) float right[DEPTH][TILE + 4];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    const int down = threadIdx.x / 16 * 4, across = threadIdx.x % 16 * 4;
    float sum[4][4] = {};
    for (int depth = 0; depth < k; depth += DEPTH) {
#pragma unroll
        for (int part = 0; part < TILE * DEPTH / 256; part++) {
            const int item = threadIdx.x + part * 256, i = item / DEPTH, j = item % DEPTH;
            const bool inside = depth + j < k;
            left[j][i] = inside && row + i < m ? __half2float(x[static_cast<size_t>(row + i) * k + depth + j]) : 0.0f;
            right[j][i] = inside && col + i < n ? __half2float(y[static_cast<size_t>(col + i) * k + depth + j]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < DEPTH; j++) {
            const float4 p = *reinterpret_cast<const float4 *>(&left[j][down]);
            const float4 q = *reinterpret_cast<const float4 *>(&right[j][across]);
            const float mine[4] = {p.x, p.y, p.z, p.w}, other[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
            for (int r = 0; r < 4; r++) {
#pragma unroll
                for (int s = 0; s < 4; s++) {
                    const float d = mine[r] - other[s];
                    sum[r][s] += d * d;
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 4; s++)
            if (row + down + r < m && col + across + s < n)
                out[static_cast<size_t>(row + down + r) * n + col + across + s] = sum[r][s];
}
