#include <cuda_bf16.h>

#define ROWS 8
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

// A warp a row.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    triplet(const bf16 *__restrict__ anchor, const bf16 *__restrict__ positive, const bf16 *__restrict__ negative,
            float *__restrict__ loss, int rows, int dim, float margin)
{
    const int row = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const size_t first = static_cast<size_t>(row) * dim;
    float near = 0.0f, far = 0.0f;
    if (dim % 8 == 0) {
        const uint4 *as = reinterpret_cast<const uint4 *>(anchor + first);
        const uint4 *ps = reinterpret_cast<const uint4 *>(positive + first);
        const uint4 *ns = reinterpret_cast<const uint4 *>(negative + first);
#pragma unroll 4
        for (int i = lane; i < dim / 8; i += 32) {
            const uint4 a = __ldcs(as + i), p = __ldcs(ps + i), n = __ldcs(ns + i);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 u = at(a, j), v = at(p, j), w = at(n, j);
                near = fmaf(u.x - v.x, u.x - v.x, fmaf(u.y - v.y, u.y - v.y, near));
                far = fmaf(u.x - w.x, u.x - w.x, fmaf(u.y - w.y, u.y - w.y, far));
            }
        }
    } else {
        for (int i = lane; i < dim; i += 32) {
            const float a = __bfloat162float(anchor[first + i]);
            const float p = a - __bfloat162float(positive[first + i]), n = a - __bfloat162float(negative[first + i]);
            near = fmaf(p, p, near);
            far = fmaf(n, n, far);
        }
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        near += __shfl_xor_sync(ALL, near, offset);
        far += __shfl_xor_sync(ALL, far, offset);
    }
    if (lane == 0)
        loss[row] = fmaxf(0.0f, sqrtf(near) - sqrtf(far) + margin);
}
