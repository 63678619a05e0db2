#include <cuda_bf16.h>

#define ROWS 4
#define HELD 4
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

__device__ __forceinline__ float dot(const uint4 &a, const uint4 &b, float sum)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 p = at(a, j), q = at(b, j);
        sum = fmaf(p.x, q.x, fmaf(p.y, q.y, sum));
    }
    return sum;
}

__device__ __forceinline__ uint4 gradient(const uint4 &y, const uint4 &dy, float sum)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 p = at(y, j), q = at(dy, j);
        reinterpret_cast<__nv_bfloat162 *>(&result)[j] =
            __floats2bfloat162_rn(p.x * (q.x - sum), p.y * (q.y - sum));
    }
    return result;
}

// A warp a row; rows of up to 1024 elements stay in registers, longer ones are read twice.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    softmax_backward(const bf16 *__restrict__ y, const bf16 *__restrict__ dy, bf16 *__restrict__ dx, int rows, int cols)
{
    const int row = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const size_t first = static_cast<size_t>(row) * cols;
    float sum = 0.0f;
    if (cols % 8 != 0) {
        for (int i = lane; i < cols; i += 32)
            sum = fmaf(__bfloat162float(y[first + i]), __bfloat162float(dy[first + i]), sum);
        sum = warp_sum(sum);
        for (int i = lane; i < cols; i += 32)
            dx[first + i] = __float2bfloat16(__bfloat162float(y[first + i]) * (__bfloat162float(dy[first + i]) - sum));
        return;
    }
    const int groups = cols / 8;
    const uint4 *from = reinterpret_cast<const uint4 *>(y + first), *grad = reinterpret_cast<const uint4 *>(dy + first);
    uint4 *to = reinterpret_cast<uint4 *>(dx + first);
    if (groups <= 32 * HELD) {
        uint4 a[HELD], g[HELD];
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const int i = lane + 32 * u;
            a[u] = i < groups ? __ldcs(from + i) : make_uint4(0, 0, 0, 0);
            g[u] = i < groups ? __ldcs(grad + i) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int u = 0; u < HELD; u++)
            sum = dot(a[u], g[u], sum);
        sum = warp_sum(sum);
#pragma unroll
        for (int u = 0; u < HELD; u++)
            if (lane + 32 * u < groups)
                __stcs(to + lane + 32 * u, gradient(a[u], g[u], sum));
        return;
    }
#pragma unroll 4
    for (int i = lane; i < groups; i += 32)
        sum = dot(from[i], grad[i], sum);
    sum = warp_sum(sum);
#pragma unroll 4
    for (int i = lane; i < groups; i += 32)
        __stcs(to + i, gradient(from[i], grad[i], sum));
}
