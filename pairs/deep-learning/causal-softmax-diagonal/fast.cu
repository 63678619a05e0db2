#include <cuda_fp16.h>

#define WARPS 4
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

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

__device__ __forceinline__ float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Any length and scale, an element a lane at a time.
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

// Starts the loads up to the diagonal.
template <int HELD>
__device__ __forceinline__ void load(uint4 (&own)[HELD], const half *__restrict__ from, int row, int lane)
{
#pragma unroll
    for (int u = 0; u < HELD; u++)
        if (8 * (lane + 32 * u) <= row)
            own[u] = __ldcs(reinterpret_cast<const uint4 *>(from) + lane + 32 * u);
}

// What lies beyond the diagonal is zero and waits for nothing.
template <int HELD> __device__ __forceinline__ void store_zeros(half *__restrict__ to, int n, int row, int lane)
{
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = lane + 32 * u;
        if (8 * i > row && i < n / 8)
            __stcs(reinterpret_cast<uint4 *>(to) + i, make_uint4(0, 0, 0, 0));
    }
}

// Eight elements of which those beyond the diagonal become minus infinity, so that their powers are zero.
__device__ __forceinline__ void mask(uint4 &bits, int inside)
{
    unsigned *words = reinterpret_cast<unsigned *>(&bits);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const unsigned left = 2 * j < inside ? words[j] & 0xffffu : 0xfc00u;
        const unsigned right = 2 * j + 1 < inside ? words[j] & 0xffff0000u : 0xfc000000u;
        words[j] = left | right;
    }
}

__device__ __forceinline__ float2 powers_at(const uint4 &bits, int j, float by, float shift)
{
    const float2 two = __half22float2(reinterpret_cast<const half2 *>(&bits)[j]);
    return make_float2(power_of_2(fmaf(two.x, by, shift)), power_of_2(fmaf(two.y, by, shift)));
}

// The maximum is found on packed halves, as the scale is positive. The powers of up to four pieces stay in registers;
// those of longer rows are computed again.
template <int HELD>
__device__ __forceinline__ void finish(uint4 (&own)[HELD], half *__restrict__ to, int row, int lane, float by)
{
    constexpr bool KEEP = HELD <= 4;
    float2 powers[KEEP ? HELD : 1][4];
    half2 top = __halves2half2(__ushort_as_half(0xfc00), __ushort_as_half(0xfc00));
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        if (256 * u > row)
            continue;
        if (256 * u + 255 > row)
            mask(own[u], row + 1 - 8 * (lane + 32 * u));
#pragma unroll
        for (int j = 0; j < 4; j++)
            top = __hmax2(top, reinterpret_cast<const half2 *>(&own[u])[j]);
    }
    const float shift = -by * warp_max(fmaxf(__low2float(top), __high2float(top)));
    float sum = 0.0f;
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        if (256 * u > row)
            continue;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 two = powers_at(own[u], j, by, shift);
            if (KEEP)
                powers[KEEP ? u : 0][j] = two;
            sum += two.x + two.y;
        }
    }
    sum = __fdividef(1.0f, warp_sum(sum));
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        if (8 * (lane + 32 * u) > row)
            continue;
        uint4 result;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 two = KEEP ? powers[KEEP ? u : 0][j] : powers_at(own[u], j, by, shift);
            reinterpret_cast<half2 *>(&result)[j] = __floats2half2_rn(two.x * sum, two.y * sum);
        }
        __stcs(reinterpret_cast<uint4 *>(to) + lane + 32 * u, result);
    }
}

template <int HELD>
__device__ __forceinline__ void row_held(const half *__restrict__ from, half *__restrict__ to, int n, int row, int lane,
                                         float by)
{
    uint4 own[HELD];
    load(own, from, row, lane);
    store_zeros<HELD>(to, n, row, lane);
    finish(own, to, row, lane, by);
}

// A warp a row, read once up to the diagonal and kept in registers; few instructions an element.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    causal_softmax(const half *__restrict__ in, half *__restrict__ out, int rows, int n, float scale)
{
    const int line = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (line >= rows)
        return;
    const int row = line % n;
    const float by = scale * 1.4426950408889634f;
    const half *from = in + static_cast<size_t>(line) * n;
    half *to = out + static_cast<size_t>(line) * n;
    if (n % 8 != 0 || n > 2048 || !(scale > 0.0f))
        row_any(from, to, n, row, lane, by);
    else if (n <= 1024)
        row_held<4>(from, to, n, row, lane, by);
    else
        row_held<8>(from, to, n, row, lane, by);
}
