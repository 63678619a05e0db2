#include <cooperative_groups.h>

#define THREADS 256
#define FULL 0xffffffffu

namespace cg = cooperative_groups;

__device__ __forceinline__ float block_sum(float value, float *parts)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(FULL, value, offset);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++)
        sum += parts[w];
    __syncthreads();
    return sum;
}

// Every block adds up the sums of all blocks, so that no launch is needed for it.
__device__ __forceinline__ float grid_sum(cg::grid_group &grid, float value, float *sums, float *parts)
{
    const float own = block_sum(value, parts);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = own;
    grid.sync();
    float sum = 0.0f;
    for (unsigned b = threadIdx.x; b < gridDim.x; b += THREADS)
        sum += __ldcg(sums + b);
    return block_sum(sum, parts);
}

// All iterations in one launch: x, r and q of a cell belong to one thread, and only p goes from thread to thread.
extern "C" __global__ void __launch_bounds__(THREADS)
    solve(const float *__restrict__ b, float *__restrict__ x, float *__restrict__ r, float *p, float *__restrict__ q,
          float *sums, int height, int width, int iterations)
{
    __shared__ float parts[THREADS / 32];
    cg::grid_group grid = cg::this_grid();
    const int cells = height * width, first = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS;
    float own = 0.0f;
    for (int i = first; i < cells; i += stride) {
        const float value = b[i];
        x[i] = 0.0f;
        r[i] = value;
        p[i] = value;
        own += value * value;
    }
    float square = grid_sum(grid, own, sums + gridDim.x, parts);
    for (int t = 0; t < iterations; t++) {
        own = 0.0f;
#pragma unroll 4
        for (int i = first; i < cells; i += stride) {
            const int y = i / width, column = i - y * width;
            const float centre = p[i];
            float sum = 4.0f * centre;
            sum -= column > 0 ? __ldcg(p + i - 1) : 0.0f;
            sum -= column + 1 < width ? __ldcg(p + i + 1) : 0.0f;
            sum -= y > 0 ? __ldcg(p + i - width) : 0.0f;
            sum -= y + 1 < height ? __ldcg(p + i + width) : 0.0f;
            q[i] = sum;
            own += centre * sum;
        }
        const float alpha = square / grid_sum(grid, own, sums, parts);
        own = 0.0f;
#pragma unroll 4
        for (int i = first; i < cells; i += stride) {
            x[i] += alpha * p[i];
            const float rest = r[i] - alpha * q[i];
            r[i] = rest;
            own += rest * rest;
        }
        const float next = grid_sum(grid, own, sums + gridDim.x, parts);
        const float beta = next / square;
        square = next;
#pragma unroll 4
        for (int i = first; i < cells; i += stride)
            p[i] = r[i] + beta * p[i];
        grid.sync();
    }
}
