// One cooperative launch. The gradients that a block reads first stay in its shared memory and those that it reads last
// in registers, so that the second sweep reads neither again; it runs backwards through what is left in L2.
#include <cooperative_groups.h>
#include <cuda_bf16.h>

#define THREADS 1024
#define WARPS (THREADS / 32)
#define KEPT 14
#define BATCH 8
#define ALL 0xffffffffu

namespace cg = cooperative_groups;

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ float block_sum(float value, float *parts)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[threadIdx.x % WARPS];
#pragma unroll
    for (int offset = WARPS / 2; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

__device__ __forceinline__ void add(float (&sums)[2], const uint4 &bits)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        sums[0] = fmaf(at(bits, j).x, at(bits, j).x, sums[0]);
        sums[1] = fmaf(at(bits, j).y, at(bits, j).y, sums[1]);
    }
}

__device__ __forceinline__ void put(uint4 *to, const uint4 &bits, float by)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++)
        reinterpret_cast<__nv_bfloat162 *>(&result)[j] =
            __floats2bfloat162_rn(at(bits, j).x * by, at(bits, j).y * by);
    __stcs(to, result);
}

// The first KEPT groups of eight a thread wait in shared memory, the others go in batches that end with the last group,
// so that only the first batch may be short. The last one is held in registers.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    clip(bf16 *__restrict__ gradient, float *__restrict__ partial, float *__restrict__ norm, int count, float limit)
{
    extern __shared__ uint4 kept[];
    __shared__ float parts[2][WARPS];
    const int eights = count / 8, first = blockIdx.x * THREADS + threadIdx.x;
    const int early = min(eights, static_cast<int>(gridDim.x) * KEPT * THREADS), width = gridDim.x * BATCH * THREADS;
    const int batches = (eights - early + width - 1) / width;
    const int begin = blockIdx.x * KEPT * THREADS + threadIdx.x;
    const int start = eights - batches * width + blockIdx.x * BATCH * THREADS + threadIdx.x;
    uint4 *values = reinterpret_cast<uint4 *>(gradient);
    float sums[2] = {};
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (begin + k * THREADS < early)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                             static_cast<unsigned>(__cvta_generic_to_shared(kept + k * THREADS + threadIdx.x))),
                         "l"(values + begin + k * THREADS)
                         : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    uint4 own[BATCH] = {};
    for (int batch = 0; batch < batches; batch++) {
        const int from = start + batch * width;
#pragma unroll
        for (int u = 0; u < BATCH; u++)
            own[u] = from + u * THREADS >= early ? values[from + u * THREADS] : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int u = 0; u < BATCH; u++)
            add(sums, own[u]);
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (begin + k * THREADS < early)
            add(sums, kept[k * THREADS + threadIdx.x]);
    float last = 0.0f;
    if (first < count % 8) {
        last = __bfloat162float(gradient[eights * 8 + first]);
        sums[0] = fmaf(last, last, sums[0]);
    }
    const float mine = block_sum(sums[0] + sums[1], parts[0]);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = mine;
    cg::this_grid().sync();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < gridDim.x; i += THREADS)
        sum += __ldcg(partial + i);
    const float all = sqrtf(block_sum(sum, parts[1]));
    if (first == 0)
        norm[0] = all;
    const float by = fminf(1.0f, limit / (all + 1e-6f));
    if (by == 1.0f)
        return;
    if (first < count % 8)
        gradient[eights * 8 + first] = __float2bfloat16(last * by);
    if (batches > 0) {
        const int from = start + (batches - 1) * width;
#pragma unroll
        for (int u = 0; u < BATCH; u++)
            if (from + u * THREADS >= early)
                put(values + from + u * THREADS, own[u], by);
    }
    for (int batch = batches - 2; batch >= 0; batch--) {
        const int from = start + batch * width;
#pragma unroll
        for (int u = BATCH - 1; u >= 0; u--)
            if (from + u * THREADS >= early)
                own[u] = __ldcs(values + from + u * THREADS);
#pragma unroll
        for (int u = BATCH - 1; u >= 0; u--)
            if (from + u * THREADS >= early)
                put(values + from + u * THREADS, own[u], by);
    }
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (begin + k * THREADS < early)
            put(values + begin + k * THREADS, kept[k * THREADS + threadIdx.x], by);
}
