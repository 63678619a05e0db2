#include <cuda_bf16.h>

#define MOST 16
#define BATCH 4

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ void add(float2 (&sum)[4], const uint4 &bits, float by)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        sum[j].x = fmaf(by, at(bits, j).x, sum[j].x);
        sum[j].y = fmaf(by, at(bits, j).y, sum[j].y);
    }
}

// A block a token; four rows in flight.
extern "C" __global__ void __launch_bounds__(256)
    combine(const bf16 *__restrict__ rows, const int *__restrict__ place, const float *__restrict__ weights,
            bf16 *__restrict__ out, int choices, int dim)
{
    __shared__ int places[MOST];
    __shared__ float shares[MOST];
    const size_t token = blockIdx.x;
    if (dim % 8 != 0 || choices > MOST) {
        for (int i = threadIdx.x; i < dim; i += blockDim.x) {
            float sum = 0.0f;
            for (int c = 0; c < choices; c++)
                sum = fmaf(weights[token * choices + c],
                           __bfloat162float(rows[static_cast<size_t>(place[token * choices + c]) * dim + i]), sum);
            out[token * dim + i] = __float2bfloat16(sum);
        }
        return;
    }
    if (threadIdx.x < choices) {
        places[threadIdx.x] = place[token * choices + threadIdx.x];
        shares[threadIdx.x] = weights[token * choices + threadIdx.x];
    }
    __syncthreads();
    const int groups = dim / 8;
    const uint4 *from = reinterpret_cast<const uint4 *>(rows);
    for (int i = threadIdx.x; i < groups; i += blockDim.x) {
        float2 sum[4] = {};
        int c = 0;
        for (; c + BATCH <= choices; c += BATCH) {
            uint4 own[BATCH];
#pragma unroll
            for (int u = 0; u < BATCH; u++)
                own[u] = __ldcs(from + static_cast<size_t>(places[c + u]) * groups + i);
#pragma unroll
            for (int u = 0; u < BATCH; u++)
                add(sum, own[u], shares[c + u]);
        }
        for (; c < choices; c++)
            add(sum, __ldcs(from + static_cast<size_t>(places[c]) * groups + i), shares[c]);
        uint4 result;
#pragma unroll
        for (int j = 0; j < 4; j++)
            reinterpret_cast<__nv_bfloat162 *>(&result)[j] = __floats2bfloat162_rn(sum[j].x, sum[j].y);
        __stcs(reinterpret_cast<uint4 *>(out) + token * groups + i, result);
    }
}
