#include <cuda_fp16.h>

#define BLOCK 64
#define DEPTH 16

// One block of threads per block of the result: both sides in shared memory, converted once; 4x4 outputs per thread.
extern "C" __global__ void __launch_bounds__(256)
    multiply(const int *__restrict__ offsets, const int *__restrict__ columns, const __half *__restrict__ a,
             const __half *__restrict__ b, float *__restrict__ out, int rows, int k)
{
    __shared__ __align__(16) float left[DEPTH][BLOCK + 4];
    __shared__ __align__(16) float right[DEPTH][BLOCK + 4];
    const int e = blockIdx.x;
    int low = 0, high = rows - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (offsets[middle + 1] <= e)
            low = middle + 1;
        else
            high = middle;
    }
    const __half *top = a + static_cast<size_t>(low) * BLOCK * k;
    const __half *side = b + static_cast<size_t>(columns[e]) * BLOCK * k;
    const int y = threadIdx.x / 16 * 4, x = threadIdx.x % 16 * 4;
    float sum[4][4] = {};
    for (int depth = 0; depth < k; depth += DEPTH) {
#pragma unroll
        for (int part = 0; part < BLOCK * DEPTH / 256; part++) {
            const int item = threadIdx.x + part * 256, i = item / DEPTH, j = item % DEPTH;
            const bool inside = depth + j < k;
            left[j][i] = inside ? __half2float(top[static_cast<size_t>(i) * k + depth + j]) : 0.0f;
            right[j][i] = inside ? __half2float(side[static_cast<size_t>(i) * k + depth + j]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < DEPTH; j++) {
            const float4 p = *reinterpret_cast<const float4 *>(&left[j][y]);
            const float4 q = *reinterpret_cast<const float4 *>(&right[j][x]);
            const float mine[4] = {p.x, p.y, p.z, p.w}, other[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int s = 0; s < 4; s++)
                    sum[r][s] += mine[r] * other[s];
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
        *reinterpret_cast<float4 *>(out + static_cast<size_t>(e) * BLOCK * BLOCK + (y + r) * BLOCK + x) =
            make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}
