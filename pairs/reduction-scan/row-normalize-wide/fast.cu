#include <cooperative_groups.h>

#define BLOCKS 8
#define THREADS 512
#define WARPS (THREADS / 32)
#define PIECES 4
#define FULL 0xffffffffu

namespace cg = cooperative_groups;

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// Four bulk copies with a barrier each, so that the first quarter is summed while the others arrive.
__device__ __forceinline__ void request(float4 *part, unsigned long long *ready, const float *__restrict__ from,
                                        int quads)
{
    const int quarter = (quads + PIECES - 1) / PIECES;
    for (int p = 0; p < PIECES; p++) {
        const int bytes = max(0, min(quarter, quads - p * quarter)) * 16;
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(ready + p)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(
                         shared_address(ready + p)),
                     "r"(bytes)
                     : "memory");
        if (bytes)
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                    shared_address(part + p * quarter)),
                "l"(from + 4 * p * quarter), "r"(bytes), "r"(shared_address(ready + p))
                : "memory");
    }
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

// One cluster per row: each block keeps its part in shared memory, so that memory is read once.
extern "C" __global__ void __launch_bounds__(THREADS)
    normalize(const float *__restrict__ in, float *__restrict__ out, int cols)
{
    extern __shared__ float4 part4[];
    __shared__ float warp_sums[WARPS];
    __shared__ float block_sums[BLOCKS];
    __shared__ unsigned long long ready[PIECES];
    cg::cluster_group cluster = cg::this_cluster();
    const int share = (cols + 4 * BLOCKS - 1) / (4 * BLOCKS) * 4;
    const int first = cluster.block_rank() * share, count = max(0, min(share, cols - first));
    const size_t base = static_cast<size_t>(blockIdx.x / BLOCKS) * cols + first;
    float *part = reinterpret_cast<float *>(part4);
    const bool whole = cols % 4 == 0;
    float sum[4] = {};
    if (whole && threadIdx.x == 0)
        request(part4, ready, in + base, count / 4);
    cluster.barrier_arrive();
    if (whole) {
        __syncthreads();
        const int quarter = (count / 4 + PIECES - 1) / PIECES;
        for (int p = 0; p < PIECES; p++) {
            wait_for(ready + p);
#pragma unroll 4
            for (int q = p * quarter + threadIdx.x; q < min((p + 1) * quarter, count / 4); q += THREADS) {
                const float4 v = part4[q];
                sum[0] += v.x * v.x, sum[1] += v.y * v.y, sum[2] += v.z * v.z, sum[3] += v.w * v.w;
            }
        }
    } else {
        for (int i = threadIdx.x; i < count; i += THREADS) {
            part[i] = in[base + i];
            sum[0] += part[i] * part[i];
        }
    }
    float own = sum[0] + sum[1] + (sum[2] + sum[3]);
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        own += __shfl_xor_sync(FULL, own, offset);
    if (threadIdx.x % 32 == 0)
        warp_sums[threadIdx.x / 32] = own;
    __syncthreads();
    // Nobody writes to a block that has not started.
    cluster.barrier_wait();
    if (threadIdx.x < 32) {
        float upper = threadIdx.x < WARPS ? warp_sums[threadIdx.x] : 0.0f;
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2)
            upper += __shfl_xor_sync(FULL, upper, offset);
        // Each block writes its sum to all, so that nobody is read from late.
        if (threadIdx.x < BLOCKS)
            *cluster.map_shared_rank(block_sums + cluster.block_rank(), threadIdx.x) = upper;
    }
    cluster.sync();
    float total = 0.0f;
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
        total += block_sums[b];
    const float inverse = 1.0f / sqrtf(total);
    if (whole) {
#pragma unroll 4
        for (int q = threadIdx.x; q < count / 4; q += THREADS) {
            const float4 v = part4[q];
            __stcs(reinterpret_cast<float4 *>(out + base) + q,
                   make_float4(v.x * inverse, v.y * inverse, v.z * inverse, v.w * inverse));
        }
    } else {
        for (int i = threadIdx.x; i < count; i += THREADS)
            out[base + i] = part[i] * inverse;
    }
}
