#include <cuda_fp16.h>

#define DIM 64
#define TILE 64
#define THREADS 256
#define LOWEST -3.0e38f

// The reductions over the 16 threads that share rows.
__device__ __forceinline__ float largest_of(float value)
{
    for (int offset = 8; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, offset));
    return value;
}

__device__ __forceinline__ float sum_of(float value)
{
    for (int offset = 8; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffff, value, offset);
    return value;
}

// 64 queries a block, 64 keys at a time; a thread has 4 x 4 scores and 4 x 4 results, 16 apart.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const half *__restrict__ q, const half *__restrict__ k, const half *__restrict__ v,
              half *__restrict__ out,
              int n, float scale)
{
    __shared__ float queries[DIM][TILE + 1], room[TILE][TILE + 1];
    __shared__ half values[TILE][DIM];
    const int y = threadIdx.x / 16, x = threadIdx.x % 16, row = blockIdx.x * TILE;
    const size_t head = static_cast<size_t>(blockIdx.y) * n * DIM;
    float o[4][4] = {}, largest[4], total[4] = {};
    for (int r = 0; r < 4; r++)
        largest[r] = LOWEST;
    for (int item = threadIdx.x; item < TILE * DIM; item += THREADS) {
        const int i = item / DIM, d = item % DIM;
        queries[d][i] = row + i < n ? scale * __half2float(q[head + static_cast<size_t>(row + i) * DIM + d]) : 0.0f;
    }
    for (int base = 0; base < n; base += TILE) {
        __syncthreads();
        for (int item = threadIdx.x; item < TILE * DIM; item += THREADS) {
            const int i = item / DIM, d = item % DIM;
            const size_t at = head + static_cast<size_t>(base + i) * DIM + d;
            room[d][i] = base + i < n ? __half2float(k[at]) : 0.0f;
            values[i][d] = base + i < n ? v[at] : __float2half(0.0f);
        }
        __syncthreads();
        float s[4][4] = {};
#pragma unroll 8
        for (int d = 0; d < DIM; d++)
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int c = 0; c < 4; c++)
                    s[r][c] = fmaf(queries[d][y + 16 * r], room[d][x + 16 * c], s[r][c]);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float top = largest[r], sum = 0.0f;
#pragma unroll
            for (int c = 0; c < 4; c++) {
                if (base + x + 16 * c >= n)
                    s[r][c] = LOWEST;
                top = fmaxf(top, s[r][c]);
            }
            top = largest_of(top);
            const float shrink = __expf(largest[r] - top);
            largest[r] = top;
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const float weight = __expf(s[r][c] - top);
                room[y + 16 * r][x + 16 * c] = weight;
                sum += weight;
                o[r][c] *= shrink;
            }
            total[r] = total[r] * shrink + sum;
        }
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < TILE; j++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const float value = __half2float(values[j][x + 16 * c]);
#pragma unroll
                for (int r = 0; r < 4; r++)
                    o[r][c] = fmaf(room[y + 16 * r][j], value, o[r][c]);
            }
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const float by = 1.0f / sum_of(total[r]);
        if (row + y + 16 * r < n)
#pragma unroll
            for (int c = 0; c < 4; c++)
                out[head + static_cast<size_t>(row + y + 16 * r) * DIM + x + 16 * c] = __float2half(o[r][c] * by);
    }
}
