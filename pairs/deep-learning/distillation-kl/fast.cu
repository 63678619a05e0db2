#include <cuda_bf16.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

// Of the logits so far: both maxima and sums of powers, and the teacher's powers times the differences.
struct Running {
    float t_max, t_sum, s_max, s_sum, product;
};

__device__ __forceinline__ Running merge(const Running &a, const Running &b)
{
    const float t = fmaxf(a.t_max, b.t_max), s = fmaxf(a.s_max, b.s_max);
    const float ta = exp2f(a.t_max - t), tb = exp2f(b.t_max - t);
    return {t, a.t_sum * ta + b.t_sum * tb, s, a.s_sum * exp2f(a.s_max - s) + b.s_sum * exp2f(b.s_max - s),
            a.product * ta + b.product * tb};
}

__device__ __forceinline__ void take(Running &mine, const uint4 &teacher, const uint4 &student, float by)
{
    float t[8], s[8];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 p = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&teacher)[j]);
        const float2 q = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&student)[j]);
        t[2 * j] = p.x * by;
        t[2 * j + 1] = p.y * by;
        s[2 * j] = q.x * by;
        s[2 * j + 1] = q.y * by;
    }
    float t_max = mine.t_max, s_max = mine.s_max;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        t_max = fmaxf(t_max, t[j]);
        s_max = fmaxf(s_max, s[j]);
    }
    const float shrink = exp2f(mine.t_max - t_max);
    mine.t_sum *= shrink;
    mine.product *= shrink;
    mine.s_sum *= exp2f(mine.s_max - s_max);
    mine.t_max = t_max;
    mine.s_max = s_max;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float power = exp2f(t[j] - t_max);
        mine.t_sum += power;
        mine.product = fmaf(power, t[j] - s[j], mine.product);
        mine.s_sum += exp2f(s[j] - s_max);
    }
}

__device__ __forceinline__ Running across(const Running &mine, int offset)
{
    return {__shfl_xor_sync(ALL, mine.t_max, offset), __shfl_xor_sync(ALL, mine.t_sum, offset),
            __shfl_xor_sync(ALL, mine.s_max, offset), __shfl_xor_sync(ALL, mine.s_sum, offset),
            __shfl_xor_sync(ALL, mine.product, offset)};
}

// All in powers of two: logits are multiplied by log2(e) / temperature once.
extern "C" __global__ void __launch_bounds__(THREADS)
    divergence(const bf16 *__restrict__ student, const bf16 *__restrict__ teacher, float *__restrict__ loss, int vocab,
               float temperature)
{
    __shared__ Running parts[WARPS];
    const size_t first = static_cast<size_t>(blockIdx.x) * vocab;
    const float by = 1.4426950408889634f / temperature;
    Running mine = {LOWEST, 0.0f, LOWEST, 0.0f, 0.0f};
    if (vocab % 8 == 0) {
        const uint4 *t = reinterpret_cast<const uint4 *>(teacher + first);
        const uint4 *s = reinterpret_cast<const uint4 *>(student + first);
#pragma unroll 2
        for (int i = threadIdx.x; i < vocab / 8; i += THREADS)
            take(mine, __ldcs(t + i), __ldcs(s + i), by);
    } else {
        for (int i = threadIdx.x; i < vocab; i += THREADS) {
            const float t = __bfloat162float(teacher[first + i]) * by, s = __bfloat162float(student[first + i]) * by;
            mine = merge(mine, {t, 1.0f, s, 1.0f, t - s});
        }
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        mine = merge(mine, across(mine, offset));
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    mine = parts[threadIdx.x % WARPS];
#pragma unroll
    for (int offset = WARPS / 2; offset > 0; offset /= 2)
        mine = merge(mine, across(mine, offset));
    if (threadIdx.x == 0) {
        const float teacher_log = log2f(mine.t_sum) + mine.t_max, student_log = log2f(mine.s_sum) + mine.s_max;
        const float bits = mine.product / mine.t_sum - teacher_log + student_log;
        loss[blockIdx.x] = bits * 0.6931471805599453f * temperature * temperature;
    }
}
