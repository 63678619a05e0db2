#include <cuda_fp16.h>

#define ROWS 4
#define HELD 4
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

// Of the logits so far: the maximum, the sum of powers and the plain sum.
struct Running {
    float largest, powers, sum;
};

__device__ __forceinline__ Running merge(const Running &a, const Running &b)
{
    const float both = fmaxf(a.largest, b.largest);
    return {both, a.powers * __expf(a.largest - both) + b.powers * __expf(b.largest - both), a.sum + b.sum};
}

__device__ __forceinline__ void take(Running &mine, const uint4 &bits)
{
    float value[8], both = mine.largest;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 pair = __half22float2(reinterpret_cast<const half2 *>(&bits)[j]);
        value[2 * j] = pair.x;
        value[2 * j + 1] = pair.y;
        both = fmaxf(both, fmaxf(pair.x, pair.y));
    }
    mine.powers *= __expf(mine.largest - both);
    mine.largest = both;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        mine.powers += __expf(value[j] - both);
        mine.sum += value[j];
    }
}

// A warp a row, in one sweep: the mean of all logarithms is the mean logit less the log-sum-exp.
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
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (first + 32 * u < groups)
                    take(mine, own[u]);
        }
    } else {
        for (int i = lane; i < classes; i += 32)
            mine = merge(mine, {__half2float(from[i]), 1.0f, __half2float(from[i])});
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        mine = merge(mine, {__shfl_xor_sync(ALL, mine.largest, offset), __shfl_xor_sync(ALL, mine.powers, offset),
                            __shfl_xor_sync(ALL, mine.sum, offset)});
    if (lane == 0) {
        const float whole = mine.largest + logf(mine.powers);
        loss[row] = whole - (1.0f - smoothing) * chosen - smoothing * mine.sum / classes;
    }
}
