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

// The part of a row that 32 lanes hold at `u`: all of it left of the diagonal, or some of it beyond.
template <bool DIAGONAL, typename Use>
__device__ __forceinline__ void for_all(const uint4 &own, int first, int row, const Use &use)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 two = at(own, j);
        use(j, !DIAGONAL || first + 2 * j <= row, two.x, !DIAGONAL || first + 2 * j < row, two.y);
    }
}

template <typename Use> __device__ __forceinline__ void for_row(const uint4 (&own)[HELD], int lane, int row, const Use &use)
{
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int first = 8 * (lane + 32 * u);
        if (256 * u + 255 <= row)
            for_all<false>(own[u], first, row, use);
        else if (256 * u <= row)
            for_all<true>(own[u], first, row, use);
    }
}

// A warp a row. What lies right of the diagonal is written but neither read nor computed; only the 256 elements
// that the diagonal crosses are masked.
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
    for_row(own, lane, row, [&](int, bool has_left, float left, bool has_right, float right) {
        largest = has_left ? fmaxf(largest, left * by) : largest;
        largest = has_right ? fmaxf(largest, right * by) : largest;
    });
    largest = warp_max(largest);
    for_row(own, lane, row, [&](int, bool has_left, float left, bool has_right, float right) {
        sum += has_left ? exp2f(fmaf(left, by, -largest)) : 0.0f;
        sum += has_right ? exp2f(fmaf(right, by, -largest)) : 0.0f;
    });
    sum = __fdividef(1.0f, warp_sum(sum));
    uint4 *to = reinterpret_cast<uint4 *>(out + first);
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        if (lane + 32 * u >= n / 8)
            continue;
        uint4 result = make_uint4(0, 0, 0, 0);
        const auto use = [&](int j, bool has_left, float left, bool has_right, float right) {
            reinterpret_cast<half2 *>(&result)[j] =
                __floats2half2_rn(has_left ? exp2f(fmaf(left, by, -largest)) * sum : 0.0f,
                                  has_right ? exp2f(fmaf(right, by, -largest)) * sum : 0.0f);
        };
        if (256 * u + 255 <= row)
            for_all<false>(own[u], 8 * (lane + 32 * u), row, use);
        else if (256 * u <= row)
            for_all<true>(own[u], 8 * (lane + 32 * u), row, use);
        __stcs(to + lane + 32 * u, result);
    }
}
