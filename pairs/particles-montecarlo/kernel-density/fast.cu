// The exponents come from tensor cores: -|p - q|^2 = -|p|^2 + 2 p.q - |q|^2, coordinates in two halves each, |q|^2 in three,
// which together have the precision of floats. BY_HAND of four powers are polynomials, so that the
// special function units, the limit here, have fewer to do.
#include <cuda_fp16.h>

#define WARPS 8
#define ROWS 4
#define OWN (16 * ROWS)
#define BLOCK 64
#define BY_HAND 1
#define FULL 0xffffffffu

struct Halves {
    __half high, low;
};

__device__ __forceinline__ Halves split(float x)
{
    const __half high = __float2half_rn(x);
    return {high, __float2half_rn(x - __half2float(high))};
}

__device__ __forceinline__ unsigned pair_of(__half low, __half high)
{
    return __half_as_ushort(low) | static_cast<unsigned>(__half_as_ushort(high)) << 16;
}

// Coordinates are scaled so that the exponent is a plain sum of squares to the base of two.
__device__ __forceinline__ float scale_of(float width)
{
    return sqrtf(0.72134752f) / width;
}

// Each sample as a column of the product's right side, in the order in which lanes hold it. Samples that fill up the last
// group are so far away that they add nothing.
extern "C" __global__ void __launch_bounds__(256)
    prepare(const float2 *__restrict__ samples, uint2 *__restrict__ columns, float width, int n, int padded)
{
    const int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= padded)
        return;
    const float2 sample = j < n ? samples[j] : make_float2(0.0f, 0.0f);
    const Halves x = split(sample.x * scale_of(width)), y = split(sample.y * scale_of(width));
    const float wx = __half2float(x.high) + __half2float(x.low), wy = __half2float(y.high) + __half2float(y.low);
    const float square = j < n ? -(wx * wx + wy * wy) : -60000.0f;
    const Halves most = split(square);
    const __half rest = __float2half_rn(square - __half2float(most.high) - __half2float(most.low));
    const __half two = __float2half_rn(2.0f), zero = __float2half_rn(0.0f);
    const unsigned twice_x = pair_of(__hmul(two, x.high), __hmul(two, x.low));
    const unsigned twice_y = pair_of(__hmul(two, y.high), __hmul(two, y.low));
    columns[4 * j] = make_uint2(twice_x, pair_of(most.high, most.low));
    columns[4 * j + 1] = make_uint2(twice_x, pair_of(rest, zero));
    columns[4 * j + 2] = make_uint2(twice_y, 0);
    columns[4 * j + 3] = make_uint2(twice_y, 0);
}

__device__ __forceinline__ float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The nearest whole number to x goes into the exponent; the polynomial is within 3e-6 of the power of the rest.
__device__ __forceinline__ float power_by_hand(float x)
{
    const float near = 12582912.0f, within = fmaxf(x, -120.0f), whole = within + near;
    const float rest = within - (whole - near);
    float y = fmaf(0.0095701022f, rest, 0.055917859f);
    y = fmaf(y, rest, 0.24024744f);
    y = fmaf(y, rest, 0.69312179f);
    y = fmaf(y, rest, 0.99999928f);
    return __int_as_float(__float_as_int(y) + (__float_as_int(whole) << 23));
}

// A block has 64 places, its warps take groups of eight samples in turn.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 2)
    density(const float2 *__restrict__ queries, const uint2 *__restrict__ columns, float *__restrict__ out, float width,
            int m, int n)
{
    __shared__ float sums[WARPS][OWN];
    const float scale = scale_of(width);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * OWN;
    const __half one = __float2half_rn(1.0f), zero = __float2half_rn(0.0f);
    const unsigned ones = lane % 4 == 0 ? pair_of(one, one) : lane % 4 == 1 ? pair_of(one, zero) : 0;
    unsigned own[2 * ROWS];
    float start[2 * ROWS], sum[2 * ROWS] = {};
#pragma unroll
    for (int r = 0; r < 2 * ROWS; r++) {
        const float2 query = queries[min(first + r * 8 + lane / 4, m - 1)];
        const Halves x = split(query.x * scale), y = split(query.y * scale);
        const float wx = __half2float(x.high) + __half2float(x.low), wy = __half2float(y.high) + __half2float(y.low);
        const __half part = lane % 4 == 0 ? x.high : lane % 4 == 1 ? x.low : lane % 4 == 2 ? y.high : y.low;
        own[r] = pair_of(part, part);
        start[r] = -(wx * wx + wy * wy);
    }
    const int groups = (n + 7) / 8;
    for (int some = warp; some < groups; some += WARPS * BLOCK) {
        float part[2 * ROWS] = {};
#pragma unroll 4
        for (int group = some; group < min(some + WARPS * BLOCK, groups); group += WARPS) {
            const uint2 column = __ldg(columns + group * 32 + lane);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float x[4];
                asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %6}, {%7, %8}, "
                    "{%9, %9, %10, %10};"
                    : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                    : "r"(own[2 * r]), "r"(own[2 * r + 1]), "r"(ones), "r"(column.x), "r"(column.y), "f"(start[2 * r]),
                      "f"(start[2 * r + 1]));
#pragma unroll
                for (int k = 0; k < 4; k++)
                    part[2 * r + k / 2] += k < BY_HAND ? power_by_hand(x[k]) : power_of_2(x[k]);
            }
        }
#pragma unroll
        for (int r = 0; r < 2 * ROWS; r++)
            sum[r] += part[r];
    }
#pragma unroll
    for (int r = 0; r < 2 * ROWS; r++) {
        sum[r] += __shfl_xor_sync(FULL, sum[r], 1);
        sum[r] += __shfl_xor_sync(FULL, sum[r], 2);
        if (lane % 4 == 0)
            sums[warp][r * 8 + lane / 4] = sum[r];
    }
    __syncthreads();
    if (threadIdx.x < OWN && first + threadIdx.x < m) {
        float total = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            total += sums[w][threadIdx.x];
        out[first + threadIdx.x] = total / n;
    }
}
