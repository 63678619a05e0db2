#include <cuda_bf16.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define ALL 0xffffffffu
#define HELD 2
#define MARGIN 0.02f

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

// A row is shared by gridDim.x blocks, so that few rows also fill the device.
extern "C" __global__ void __launch_bounds__(THREADS)
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
        float top = -3.0e38f;
        for (int base = blockIdx.x * THREADS; base < vocab / 8; base += HELD * stride) {
            float logit[HELD][8], u[HELD][8];
            float near = -3.0e38f;
#pragma unroll
            for (int h = 0; h < HELD; h++) {
                const int i = base + h * stride + threadIdx.x;
                const bool inside = i < vocab / 8;
                const uint4 bits = inside ? __ldcs(eights + i) : make_uint4(0, 0, 0, 0);
                const float4 none = make_float4(0.5f, 0.5f, 0.5f, 0.5f);
                const float4 a = inside ? __ldcs(quads + 2 * i) : none, b = inside ? __ldcs(quads + 2 * i + 1) : none;
                const float of[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    const __nv_bfloat162 pair = reinterpret_cast<const __nv_bfloat162 *>(&bits)[j / 2];
                    logit[h][j] = inside ? j % 2 ? __high2float(pair) : __low2float(pair) : -3.0e38f;
                    u[h][j] = of[j];
                    near = fmaxf(near, about(logit[h][j], u[h][j], inverse));
                }
            }
            top = fmaxf(top, near);
#pragma unroll
            for (int offset = 16; offset > 0; offset /= 2)
                top = fmaxf(top, __shfl_xor_sync(ALL, top, offset));
            // Only what comes near the warp's best is computed exactly.
            const float bound = top - MARGIN - MARGIN * fabsf(top);
            if (near < bound)
                continue;
#pragma unroll
            for (int h = 0; h < HELD; h++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    if (about(logit[h][j], u[h][j], inverse) >= bound)
                        best = max(best, key_at(logit[h][j], u[h][j], inverse,
                                                8 * (base + h * stride + static_cast<int>(threadIdx.x)) + j));
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
