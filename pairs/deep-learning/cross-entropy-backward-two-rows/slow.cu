#include <cuda_bf16.h>

#define THREADS 1024
#define WARPS (THREADS / 32)
#define HELD 4
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

struct Running {
    float largest, sum;
};

__device__ __forceinline__ Running merge(Running a, Running b)
{
    const float both = fmaxf(a.largest, b.largest);
    return {both, a.sum * __expf(a.largest - both) + b.sum * __expf(b.largest - both)};
}

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ void take(Running &mine, const uint4 &bits)
{
    float both = mine.largest;
#pragma unroll
    for (int j = 0; j < 4; j++)
        both = fmaxf(both, fmaxf(at(bits, j).x, at(bits, j).y));
    mine.sum *= __expf(mine.largest - both);
    mine.largest = both;
#pragma unroll
    for (int j = 0; j < 4; j++)
        mine.sum += __expf(at(bits, j).x - both) + __expf(at(bits, j).y - both);
}

__device__ __forceinline__ Running block_merge(Running mine)
{
    __shared__ Running parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        mine = merge(mine, {__shfl_xor_sync(ALL, mine.largest, offset), __shfl_xor_sync(ALL, mine.sum, offset)});
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = parts[threadIdx.x % 32];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        mine = merge(mine, {__shfl_xor_sync(ALL, mine.largest, offset), __shfl_xor_sync(ALL, mine.sum, offset)});
    return mine;
}

// The gradient of eight logits: exp(x - largest) * by, less `scale` at the label.
__device__ __forceinline__ uint4 gradient(const uint4 &bits, float largest, float by, int place, float scale)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 x = at(bits, j);
        const float left = __expf(x.x - largest) * by - (place == 2 * j ? scale : 0.0f);
        const float right = __expf(x.y - largest) * by - (place == 2 * j + 1 ? scale : 0.0f);
        reinterpret_cast<__nv_bfloat162 *>(&result)[j] = __floats2bfloat162_rn(left, right);
    }
    return result;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cross_entropy(bf16 *__restrict__ logits, const int *__restrict__ labels, float *__restrict__ loss, int vocab,
                  float scale)
{
    bf16 *row = logits + static_cast<size_t>(blockIdx.x) * vocab;
    uint4 *eights = reinterpret_cast<uint4 *>(row);
    const int label = labels[blockIdx.x], groups = vocab / 8;
    const bool whole = vocab % 8 == 0, held = whole && groups <= HELD * THREADS;
    const float chosen = __bfloat162float(row[label]);
    Running mine = {LOWEST, 0.0f};
    uint4 own[HELD];
    if (held) {
#pragma unroll
        for (int u = 0; u < HELD; u++)
            if (threadIdx.x + u * THREADS < groups)
                own[u] = __ldcs(eights + threadIdx.x + u * THREADS);
#pragma unroll
        for (int u = 0; u < HELD; u++)
            if (threadIdx.x + u * THREADS < groups)
                take(mine, own[u]);
    } else if (whole) {
#pragma unroll 4
        for (int i = threadIdx.x; i < groups; i += THREADS)
            take(mine, eights[i]);
    } else {
        for (int i = threadIdx.x; i < vocab; i += THREADS)
            mine = merge(mine, {__bfloat162float(row[i]), 1.0f});
    }
    mine = block_merge(mine);
    const float by = __fdividef(scale, mine.sum);
    if (threadIdx.x == 0)
        loss[blockIdx.x] = logf(mine.sum) + mine.largest - chosen;
    if (held) {
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const int i = threadIdx.x + u * THREADS;
            if (i < groups)
                __stcs(eights + i, gradient(own[u], mine.largest, by, label - 8 * i, scale));
        }
    } else if (whole) {
#pragma unroll 4
        for (int i = threadIdx.x; i < groups; i += THREADS)
            __stcs(eights + i, gradient(eights[i], mine.largest, by, label - 8 * i, scale));
    } else {
        for (int i = threadIdx.x; i < vocab; i += THREADS) {
            const float share = __expf(__bfloat162float(row[i]) - mine.largest) * by;
            row[i] = __float2bfloat16(share - (i == label ? scale : 0.0f));
        }
    }
}
