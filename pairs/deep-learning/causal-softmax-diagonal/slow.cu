#include <cuda_fp16.h>

#define ROWS 4
#define HELD 8
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __half22float2(reinterpret_cast<const half2 *>(&bits)[j]);
}

__device__ __forceinline__ float warp_max(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL, value, offset));
    return value;
}

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

// Any length, an element a lane at a time.
__device__ __forceinline__ void row_any(const half *__restrict__ from, half *__restrict__ to, int n, int row, int lane,
                                        float by)
{
    float largest = LOWEST, sum = 0.0f;
    for (int i = lane; i <= row; i += 32)
        largest = fmaxf(largest, __half2float(from[i]) * by);
    largest = warp_max(largest);
    for (int i = lane; i <= row; i += 32)
        sum += exp2f(fmaf(__half2float(from[i]), by, -largest));
    sum = __fdividef(1.0f, warp_sum(sum));
    for (int i = lane; i < n; i += 32)
        to[i] = __float2half(i <= row ? exp2f(fmaf(__half2float(from[i]), by, -largest)) * sum : 0.0f);
}

// A warp a row. What lies right of the diagonal is written but never read.
extern "C" __global__ void __launch_bounds__(32 * ROWS, 6)
    causal_softmax(const half *__restrict__ in, half *__restrict__ out, int rows, int n, float scale)
{
    const int line = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (line >= rows)
        return;
    const int row = line % n;
    const float by = scale * 1.4426950408889634f;
    const size_t first = static_cast<size_t>(line) * n;
    if (n % 8 != 0 || n > 256 * HELD) {
        row_any(in + first, out + first, n, row, lane, by);
        return;
    }
    const uint4 *from = reinterpret_cast<const uint4 *>(in + first);
    uint4 own[HELD];
#pragma unroll
    for (int u = 0; u < HELD; u++)
        if (8 * (lane + 32 * u) <= row)
            own[u] = __ldcs(from + lane + 32 * u);
    float largest = LOWEST, sum = 0.0f;
#pragma unroll
    for (int u = 0; u < HELD; u++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int i = 8 * (lane + 32 * u) + 2 * j;
            largest = i <= row ? fmaxf(largest, at(own[u], j).x * by) : largest;
            largest = i < row ? fmaxf(largest, at(own[u], j).y * by) : largest;
        }
    largest = warp_max(largest);
#pragma unroll
    for (int u = 0; u < HELD; u++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int i = 8 * (lane + 32 * u) + 2 * j;
            sum += i <= row ? exp2f(fmaf(at(own[u], j).x, by, -largest)) : 0.0f;
            sum += i < row ? exp2f(fmaf(at(own[u], j).y, by, -largest)) : 0.0f;
        }
    sum = __fdividef(1.0f, warp_sum(sum));
    uint4 *to = reinterpret_cast<uint4 *>(out + first);
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        if (lane + 32 * u >= n / 8)
            continue;
        uint4 result = make_uint4(0, 0, 0, 0);
        if (8 * (lane + 32 * u) <= row)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int i = 8 * (lane + 32 * u) + 2 * j;
                const float left = i <= row ? exp2f(fmaf(at(own[u], j).x, by, -largest)) * sum : 0.0f;
                const float right = i < row ? exp2f(fmaf(at(own[u], j).y, by, -largest)) * sum : 0.0f;
                reinterpret_cast<half2 *>(&result)[j] = __floats2half2_rn(left, right);
            }
        __stcs(to + lane + 32 * u, result);
    }
}
