#include <cuda_bf16.h>

#define THREADS 1024
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

struct Rule {
    float largest, temperature, least;
};

__device__ __forceinline__ float mass_of(float logit, const Rule &rule)
{
    const float power = expf((logit - rule.largest) / rule.temperature);
    return power >= rule.least ? power : 0.0f;
}

// Eight logits from `i` on as floats; what lies past the end counts as far below all others.
__device__ __forceinline__ void load(const bf16 *__restrict__ row, int i, int vocab, float (&to)[8])
{
    if (vocab % 8 == 0) {
        const uint4 bits = i < vocab ? *reinterpret_cast<const uint4 *>(row + i) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 pair = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
            to[2 * j] = i < vocab ? pair.x : -3.0e38f;
            to[2 * j + 1] = i < vocab ? pair.y : -3.0e38f;
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < 8; j++)
        to[j] = i + j < vocab ? __bfloat162float(row[i + j]) : -3.0e38f;
}

// Few logits reach the bound: most warps see none in their 256 and skip the exponentials.
__device__ __forceinline__ double masses(const float (&value)[8], float bound, const Rule &rule)
{
    double sum = 0.0;
#pragma unroll
    for (int j = 0; j < 8; j++)
        if (value[j] >= bound)
            sum += mass_of(value[j], rule);
    return sum;
}

__device__ __forceinline__ float block_max(float value)
{
    __shared__ float parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL, value, offset));
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[threadIdx.x % 32];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL, value, offset));
    return value;
}

// A warp a stretch of the row; the warp whose stretch holds the target walks it in steps of 256.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    sample(const bf16 *__restrict__ logits, const float *__restrict__ uniform, int *__restrict__ token, int vocab,
           float temperature, float least)
{
    __shared__ double sums[WARPS];
    const bf16 *row = logits + static_cast<size_t>(blockIdx.x) * vocab;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float value[8], largest = -3.0e38f;
#pragma unroll 4
    for (int i = 8 * threadIdx.x; i < vocab; i += 8 * THREADS) {
        load(row, i, vocab, value);
#pragma unroll
        for (int j = 0; j < 8; j++)
            largest = fmaxf(largest, value[j]);
    }
    const Rule rule = {block_max(largest), temperature, least};
    // A little below the logit that just reaches the least share; the rule itself decides.
    const float bound = rule.largest + temperature * logf(least) - 0.01f * temperature;
    const int each = (vocab + 256 * WARPS - 1) / (256 * WARPS) * 256;
    const int begin = min(vocab, warp * each), end = min(vocab, begin + each);
    double sum = 0.0, before = 0.0, whole = 0.0;
#pragma unroll 2
    for (int i = begin + 8 * lane; i < end; i += 256) {
        load(row, i, vocab, value);
        sum += masses(value, bound, rule);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) {
        before += i < warp ? sums[i] : 0.0;
        whole += sums[i];
    }
    const double target = uniform[blockIdx.x] * whole;
    if (target < before || target >= before + sums[warp])
        return;
    for (int first = begin; first < end; first += 256) {
        load(row, first + 8 * lane, vocab, value);
        const double own = masses(value, bound, rule);
        double upto = own;
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const double other = __shfl_up_sync(ALL, upto, offset);
            upto += lane >= offset ? other : 0.0;
        }
        const unsigned past = __ballot_sync(ALL, target < before + upto);
        if (past == 0) {
            before += __shfl_sync(ALL, upto, 31);
            continue;
        }
        if (lane == __ffs(past) - 1) {
            double at = before + upto - own;
            for (int j = 0; j < 8; j++) {
                at += value[j] >= bound ? mass_of(value[j], rule) : 0.0f;
                if (target < at || j == 7) {
                    *(token + blockIdx.x) = first + 8 * lane + j;
                    break;
                }
            }
        }
        return;
    }
}
