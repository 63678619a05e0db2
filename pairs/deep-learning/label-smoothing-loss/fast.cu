#include <cuda_fp16.h>

#define ROWS 4
#define HELD 4
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

// e to the power of x; what is too small for a normal number counts as zero.
__device__ __forceinline__ float power_of(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
    return y;
}

// Of the logits so far: the maximum, the sum of powers and the plain sum.
struct Running {
    float largest, powers, sum;
};

__device__ __forceinline__ Running merge(const Running &a, const Running &b)
{
    const float both = fmaxf(a.largest, b.largest);
    return {both, a.powers * power_of(a.largest - both) + b.powers * power_of(b.largest - both), a.sum + b.sum};
}

__device__ __forceinline__ half2 pair_of(const uint4 &bits, int j) { return reinterpret_cast<const half2 *>(&bits)[j]; }

// A warp a row, in one sweep: the mean of all logarithms is the mean logit less the log-sum-exp. Maxima are taken of pairs
// of halves, and a lane's sum of powers moves to a new maximum once in 32 logits, the warp's once.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    label_smoothing(const half *__restrict__ logits, const int *__restrict__ labels, float *__restrict__ loss, int rows,
                    int classes, float smoothing)
{
    const int row = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const half *from = logits + static_cast<size_t>(row) * classes;
    const float chosen = __half2float(from[labels[row]]);
    Running mine = {LOWEST, 0.0f, 0.0f};
    if (classes % 8 == 0) {
        const uint4 *eights = reinterpret_cast<const uint4 *>(from);
        const int groups = classes / 8;
        for (int first = lane; first < groups; first += 32 * HELD) {
            uint4 own[HELD];
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (first + 32 * u < groups)
                    own[u] = __ldcs(eights + first + 32 * u);
            half2 top = pair_of(own[0], 0);
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (first + 32 * u < groups)
                    top = __hmax2(top, __hmax2(__hmax2(pair_of(own[u], 0), pair_of(own[u], 1)),
                                               __hmax2(pair_of(own[u], 2), pair_of(own[u], 3))));
            const float2 tops = __half22float2(top);
            const float both = fmaxf(mine.largest, fmaxf(tops.x, tops.y));
            float powers[2] = {mine.powers * power_of(mine.largest - both), 0.0f}, sums[2] = {mine.sum, 0.0f};
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (first + 32 * u < groups)
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        const float2 value = __half22float2(pair_of(own[u], j));
                        powers[0] += power_of(value.x - both);
                        powers[1] += power_of(value.y - both);
                        sums[0] += value.x;
                        sums[1] += value.y;
                    }
            mine = {both, powers[0] + powers[1], sums[0] + sums[1]};
        }
    } else {
        for (int i = lane; i < classes; i += 32)
            mine = merge(mine, {__half2float(from[i]), 1.0f, __half2float(from[i])});
    }
    float largest = mine.largest;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, offset));
    mine.powers *= power_of(mine.largest - largest);
    mine.largest = largest;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        mine.powers += __shfl_xor_sync(ALL, mine.powers, offset);
        mine.sum += __shfl_xor_sync(ALL, mine.sum, offset);
    }
    if (lane == 0) {
        const float whole = mine.largest + logf(mine.powers);
        loss[row] = whole - (1.0f - smoothing) * chosen - smoothing * mine.sum / classes;
    }
}
