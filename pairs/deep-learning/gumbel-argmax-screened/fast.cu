#include <cuda_bf16.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu
#define HELD 2
#define MARGIN 0.02f
#define LOG2E 1.4426950408889634f
#define SURE 0.9999f

typedef __nv_bfloat16 bf16;
typedef unsigned long long Key;

// The score in the upper half, in the order of floats; below it the place, smaller ones larger.
__device__ __forceinline__ Key key_of(float score, int place)
{
    const unsigned bits = __float_as_uint(score);
    const unsigned high = bits ^ (static_cast<unsigned>(static_cast<int>(bits) >> 31) | 0x80000000u);
    return static_cast<Key>(high) << 32 | (0xffffffffu - place);
}

__device__ __forceinline__ Key key_at(float logit, float uniform, float inverse, int place)
{
    return key_of(logit * inverse - logf(-logf(uniform)), place);
}

// The score by the special function units: off by 0.001 at most for numbers from 0.001 to 0.999, 0.01 nearer to one.
__device__ __forceinline__ float about(float logit, float uniform, float inverse)
{
    return fmaf(logit, inverse, -__logf(-__logf(uniform)));
}

__device__ __forceinline__ Key warp_max(Key key)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        key = max(key, __shfl_xor_sync(ALL, key, offset));
    return key;
}

__device__ __forceinline__ float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float warp_max_float(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL, value, offset));
    return value;
}

// Eight logits and their uniform numbers.
struct Eight {
    uint4 logits;
    float4 left, right;
};

__device__ __forceinline__ float logit_at(const Eight &eight, int j)
{
    const unsigned word = reinterpret_cast<const unsigned *>(&eight.logits)[j / 2];
    return __uint_as_float(j % 2 ? word & 0xffff0000u : word << 16);
}

__device__ __forceinline__ float uniform_at(const Eight &eight, int j)
{
    return reinterpret_cast<const float *>(j < 4 ? &eight.left : &eight.right)[j % 4];
}

// A score beats `top` where u > exp(-E) with E = exp(logit * inverse - top), so only where u + E > 1: one power instead
// of two logarithms, and the fewer places pass the better the best so far is.
__device__ __forceinline__ float chance(const Eight &eight, int j, float slope, float shift)
{
    return uniform_at(eight, j) + power_of_2(fmaf(logit_at(eight, j), slope, shift));
}

// A row is shared by gridDim.x blocks, all of them resident at once.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    best_of_parts(const bf16 *__restrict__ logits, const float *__restrict__ uniform, Key *__restrict__ keys, int vocab,
                  float inverse)
{
    __shared__ Key parts[WARPS];
    const size_t first = static_cast<size_t>(blockIdx.y) * vocab;
    const int start = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS;
    Key best = 0;
    if (vocab % 8 == 0) {
        const uint4 *eights = reinterpret_cast<const uint4 *>(logits + first);
        const float4 *quads = reinterpret_cast<const float4 *>(uniform + first);
        const float slope = inverse * LOG2E;
        float top = -1.0e30f;
        for (int base = blockIdx.x * THREADS; base < vocab / 8; base += HELD * stride) {
            Eight own[HELD];
#pragma unroll
            for (int h = 0; h < HELD; h++) {
                const int i = base + h * stride + threadIdx.x;
                const bool inside = i < vocab / 8;
                const unsigned none = 0xff7fff7fu;
                const float4 half = make_float4(0.5f, 0.5f, 0.5f, 0.5f);
                own[h].logits = inside ? __ldcs(eights + i) : make_uint4(none, none, none, none);
                own[h].left = inside ? __ldcs(quads + 2 * i) : half;
                own[h].right = inside ? __ldcs(quads + 2 * i + 1) : half;
            }
            if (base == blockIdx.x * THREADS) {
                // The first scores by the special function units, to begin with a bound that few others pass.
                float near = -1.0e30f;
#pragma unroll
                for (int j = 0; j < 8; j++)
                    near = fmaxf(near, about(logit_at(own[0], j), uniform_at(own[0], j), inverse));
                near = warp_max_float(near);
                top = near - MARGIN - MARGIN * fabsf(near);
            }
            const float shift = -top * LOG2E;
            float likely = 0.0f;
#pragma unroll
            for (int h = 0; h < HELD; h++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    likely = fmaxf(likely, chance(own[h], j, slope, shift));
            if (!__any_sync(ALL, likely >= SURE))
                continue;
#pragma unroll
            for (int h = 0; h < HELD; h++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    if (chance(own[h], j, slope, shift) >= SURE) {
                        const float score = logit_at(own[h], j) * inverse - logf(-logf(uniform_at(own[h], j)));
                        best = max(best, key_of(score, 8 * (base + h * stride + static_cast<int>(threadIdx.x)) + j));
                        top = fmaxf(top, score);
                    }
            top = warp_max_float(top);
        }
    } else {
        for (int i = start; i < vocab; i += stride)
            best = max(best, key_at(__bfloat162float(logits[first + i]), uniform[first + i], inverse, i));
    }
    best = warp_max(best);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x < 32) {
        best = warp_max(parts[threadIdx.x % WARPS]);
        if (threadIdx.x == 0)
            keys[blockIdx.y * gridDim.x + blockIdx.x] = best;
    }
}

extern "C" __global__ void best_of_rows(const Key *__restrict__ keys, int *__restrict__ token, int rows, int parts)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    Key best = 0;
    for (int i = lane; i < parts; i += 32)
        best = max(best, keys[row * parts + i]);
    best = warp_max(best);
    if (lane == 0)
        token[row] = static_cast<int>(0xffffffffu - static_cast<unsigned>(best));
}
