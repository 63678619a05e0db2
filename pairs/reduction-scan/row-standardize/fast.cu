#include <cooperative_groups.h>

#define BLOCKS 4
#define THREADS 512
#define WARPS (THREADS / 32)
#define PIECES 4
#define ALL 0xffffffffu

namespace cg = cooperative_groups;

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// Bulk copies with a barrier each, so that the first piece is summed while the others arrive.
__device__ __forceinline__ void request(float4 *slice, unsigned long long *ready, const float *__restrict__ from, int quads)
{
    const int piece = (quads + PIECES - 1) / PIECES;
    for (int p = 0; p < PIECES; p++) {
        const int bytes = max(0, min(piece, quads - p * piece)) * 16;
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
                    shared_address(slice + p * piece)),
                "l"(from + 4 * p * piece), "r"(bytes), "r"(shared_address(ready + p))
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

__device__ __forceinline__ float2 warp_sums(float2 value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, offset);
        value.y += __shfl_xor_sync(ALL, value.y, offset);
    }
    return value;
}

// Each block writes its sums to all blocks of the cluster, so that one barrier is enough and nobody is read from late.
__device__ __forceinline__ float2 cluster_sums(float2 mine, float2 *warps, float2 *blocks)
{
    cg::cluster_group cluster = cg::this_cluster();
    mine = warp_sums(mine);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        mine = warp_sums(threadIdx.x < WARPS ? warps[threadIdx.x] : make_float2(0.0f, 0.0f));
        if (threadIdx.x < BLOCKS)
            *cluster.map_shared_rank(blocks + cluster.block_rank(), threadIdx.x) = mine;
    }
    cluster.sync();
    float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int block = 0; block < BLOCKS; block++)
        total = make_float2(total.x + blocks[block].x, total.y + blocks[block].y);
    return total;
}

__device__ __forceinline__ void add(float2 &sums, float value, float pivot)
{
    const float off = value - pivot;
    sums.x += off;
    sums.y = fmaf(off, off, sums.y);
}

// A cluster a row, in shared memory. Sums of the distance from the row's first value and of its square, so that mean and
// variance take one barrier of the cluster.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    standardize(const float *__restrict__ values, float *__restrict__ out, int cols, float eps)
{
    extern __shared__ float4 quads[];
    __shared__ float2 warps[WARPS], blocks[BLOCKS];
    __shared__ unsigned long long ready[PIECES];
    float *slice = reinterpret_cast<float *>(quads);
    const int share = (cols + BLOCKS * 4 - 1) / (BLOCKS * 4) * 4;
    const int first = min(static_cast<int>(blockIdx.x) * share, cols), count = min(share, cols - first);
    const size_t row = static_cast<size_t>(blockIdx.y) * cols;
    const float *from = values + row + first;
    float *to = out + row + first;
    const bool aligned = cols % 4 == 0;
    if (aligned && threadIdx.x == 0)
        request(quads, ready, from, count / 4);
    cg::this_cluster().barrier_arrive();
    const float pivot = values[row];
    float2 sums[2] = {};
    __syncthreads();
    if (aligned) {
        const int piece = (count / 4 + PIECES - 1) / PIECES;
        for (int p = 0; p < PIECES; p++) {
            wait_for(ready + p);
#pragma unroll 2
            for (int i = p * piece + threadIdx.x; i < min((p + 1) * piece, count / 4); i += THREADS) {
                const float4 v = quads[i];
                add(sums[0], v.x, pivot);
                add(sums[1], v.y, pivot);
                add(sums[0], v.z, pivot);
                add(sums[1], v.w, pivot);
            }
        }
    } else {
        for (int i = threadIdx.x; i < count; i += THREADS) {
            slice[i] = from[i];
            add(sums[0], slice[i], pivot);
        }
    }
    // Nobody writes to a block that has not started.
    cg::this_cluster().barrier_wait();
    const float2 total = cluster_sums(make_float2(sums[0].x + sums[1].x, sums[0].y + sums[1].y), warps, blocks);
    const float off = total.x / cols, mean = pivot + off;
    const float scale = rsqrtf(fmaxf(0.0f, total.y / cols - off * off) + eps);
    if (aligned) {
#pragma unroll 4
        for (int i = threadIdx.x; i < count / 4; i += THREADS) {
            const float4 v = quads[i];
            __stcs(reinterpret_cast<float4 *>(to) + i, make_float4((v.x - mean) * scale, (v.y - mean) * scale,
                                                                  (v.z - mean) * scale, (v.w - mean) * scale));
        }
    } else {
        for (int i = threadIdx.x; i < count; i += THREADS)
            to[i] = (slice[i] - mean) * scale;
    }
}
