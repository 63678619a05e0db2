#include <cooperative_groups.h>
#include <cuda_bf16.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define HELD_BYTES 221184
#define ALL 0xffffffffu

namespace cg = cooperative_groups;

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

__device__ __forceinline__ void wait_for(unsigned long long *barrier)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier))
                     : "memory");
}

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

__device__ __forceinline__ float dot(const uint4 &own, const float4 &a, const float4 &b, float sum)
{
    sum = fmaf(at(own, 0).x, a.x, fmaf(at(own, 0).y, a.y, sum));
    sum = fmaf(at(own, 1).x, a.z, fmaf(at(own, 1).y, a.w, sum));
    sum = fmaf(at(own, 2).x, b.x, fmaf(at(own, 2).y, b.y, sum));
    return fmaf(at(own, 3).x, b.z, fmaf(at(own, 3).y, b.w, sum));
}

// The sum over the features commutes with the product. One cooperative launch: each block's rows of x are on their way to
// shared memory (what does not fit, to L2) while the blocks sum the weights' rows, then the sums of all blocks, and then
// make the dot products, eight columns a thread.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    row_sums(const bf16 *__restrict__ x, const bf16 *__restrict__ w, const float *__restrict__ bias, float *partial,
             float *whole, float *__restrict__ y, int m, int n, int k, float scale)
{
    extern __shared__ uint4 held[];
    __shared__ float room[WARPS][33];
    __shared__ unsigned long long ready;
    const cg::grid_group grid = cg::this_grid();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, blocks = gridDim.x, block = blockIdx.x, groups = k / 8;
    const int rows = block < m ? (m - 1 - block) / blocks + 1 : 0, kept = min(rows, HELD_BYTES / (2 * k));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&ready)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(
                         shared_address(&ready)),
                     "r"(kept * k * 2)
                     : "memory");
        for (int r = 0; r < rows; r++) {
            const bf16 *from = x + static_cast<size_t>(block + r * blocks) * k;
            if (r < kept)
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                        shared_address(held + r * groups)),
                    "l"(from), "r"(k * 2), "r"(shared_address(&ready))
                    : "memory");
            else
                asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(k * 2) : "memory");
        }
    }
    for (int g = threadIdx.x; g < groups; g += THREADS) {
        float sum[8] = {};
#pragma unroll 8
        for (int row = block; row < n; row += blocks) {
            const uint4 own = __ldcs(reinterpret_cast<const uint4 *>(w + static_cast<size_t>(row) * k) + g);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                sum[2 * j] += at(own, j).x;
                sum[2 * j + 1] += at(own, j).y;
            }
        }
        float4 *to = reinterpret_cast<float4 *>(partial + static_cast<size_t>(block) * k) + 2 * g;
        __stcg(to, make_float4(sum[0], sum[1], sum[2], sum[3]));
        __stcg(to + 1, make_float4(sum[4], sum[5], sum[6], sum[7]));
    }
    grid.sync();
    // Strips of 32 columns, and the biases after them.
    for (int strip = block; strip <= (k + 31) / 32; strip += blocks) {
        const bool biases = strip == (k + 31) / 32;
        const int column = strip * 32 + lane;
        float sum = 0.0f;
        if (biases)
            for (int i = threadIdx.x; i < n; i += THREADS)
                sum += bias[i];
        else if (column < k)
#pragma unroll 4
            for (int part = warp; part < blocks; part += WARPS)
                sum += __ldcg(partial + static_cast<size_t>(part) * k + column);
        room[warp][lane] = sum;
        __syncthreads();
        if (warp == 0) {
            sum = 0.0f;
#pragma unroll
            for (int other = 0; other < WARPS; other++)
                sum += room[other][lane];
            if (biases)
                sum = warp_sum(sum);
            if (biases ? lane == 0 : column < k)
                __stcg(whole + (biases ? k : column), sum);
        }
        __syncthreads();
    }
    grid.sync();
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float4 *weights = reinterpret_cast<const float4 *>(whole);
    const int first = threadIdx.x;
    const float4 a = first < groups ? __ldcg(weights + 2 * first) : none;
    const float4 b = first < groups ? __ldcg(weights + 2 * first + 1) : none;
    const float add = __ldcg(whole + k);
    wait_for(&ready);
    // Up to 32 rows at a time: a warp's lane r has its share of row r.
    for (int start = 0; start < rows; start += 32) {
        float mine = 0.0f;
#pragma unroll 4
        for (int r = start; r < min(rows, start + 32); r++) {
            const uint4 *from = r < kept ? held + r * groups
                                         : reinterpret_cast<const uint4 *>(x + static_cast<size_t>(block + r * blocks) * k);
            float sum = first < groups ? dot(from[first], a, b, 0.0f) : 0.0f;
            for (int g = first + THREADS; g < groups; g += THREADS)
                sum = dot(from[g], __ldcg(weights + 2 * g), __ldcg(weights + 2 * g + 1), sum);
            sum = warp_sum(sum);
            mine = lane == r - start ? sum : mine;
        }
        room[warp][lane] = mine;
        __syncthreads();
        if (warp == 0 && start + lane < rows) {
            float sum = 0.0f;
#pragma unroll
            for (int other = 0; other < WARPS; other++)
                sum += room[other][lane];
            y[block + (start + lane) * blocks] = (sum + add) * scale;
        }
        __syncthreads();
    }
}
