#include <cooperative_groups.h>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;

#define BLOCKS 4
#define THREADS 512
#define WARPS (THREADS / 32)
#define PIECES 4
#define HELD 4608
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// Bulk copies with a barrier each, so that the first piece is summed while the others arrive.
__device__ __forceinline__ void request(uint4 *slice, unsigned long long *ready, const uint4 *__restrict__ from, int count)
{
    const int piece = (count + PIECES - 1) / PIECES;
    for (int p = 0; p < PIECES; p++) {
        const int bytes = max(0, min(piece, count - p * piece)) * 16;
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
                "l"(from + p * piece), "r"(bytes), "r"(shared_address(ready + p))
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

__device__ __forceinline__ uint4 shifted(const uint4 &bits, float shift)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++)
        reinterpret_cast<__nv_bfloat162 *>(&result)[j] =
            __floats2bfloat162_rn(at(bits, j).x - shift, at(bits, j).y - shift);
    return result;
}

// Each block writes its result to all blocks of the cluster, so that one barrier is enough and nobody is read from late.
__device__ __forceinline__ Running cluster_merge(Running mine, Running *warps, Running *blocks)
{
    cg::cluster_group cluster = cg::this_cluster();
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        mine = merge(mine, {__shfl_xor_sync(ALL, mine.largest, offset), __shfl_xor_sync(ALL, mine.sum, offset)});
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        mine = warps[threadIdx.x % WARPS];
#pragma unroll
        for (int offset = WARPS / 2; offset > 0; offset /= 2)
            mine = merge(mine, {__shfl_xor_sync(ALL, mine.largest, offset), __shfl_xor_sync(ALL, mine.sum, offset)});
        if (threadIdx.x < BLOCKS)
            *cluster.map_shared_rank(blocks + cluster.block_rank(), threadIdx.x) = mine;
    }
    cluster.sync();
    mine = blocks[0];
#pragma unroll
    for (int block = 1; block < BLOCKS; block++)
        mine = merge(mine, blocks[block]);
    return mine;
}

// A cluster a row, a block a quarter of it in shared memory.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    log_softmax(const bf16 *__restrict__ in, bf16 *__restrict__ out, int cols)
{
    extern __shared__ uint4 slice[];
    __shared__ Running warps[WARPS], blocks[BLOCKS];
    __shared__ unsigned long long ready[PIECES];
    const size_t first = static_cast<size_t>(blockIdx.y) * cols;
    const int groups = cols / 8, share = (groups + BLOCKS - 1) / BLOCKS;
    const bool whole = cols % 8 == 0, held = whole && share <= HELD;
    const int begin = min(groups, static_cast<int>(blockIdx.x) * share), count = min(groups, begin + share) - begin;
    const uint4 *from = reinterpret_cast<const uint4 *>(in + first) + begin;
    uint4 *to = reinterpret_cast<uint4 *>(out + first) + begin;
    if (held && threadIdx.x == 0)
        request(slice, ready, from, count);
    cg::this_cluster().barrier_arrive();
    __syncthreads();
    Running mine = {LOWEST, 0.0f};
    if (held) {
        const int piece = (count + PIECES - 1) / PIECES;
        for (int p = 0; p < PIECES; p++) {
            wait_for(ready + p);
#pragma unroll 2
            for (int i = p * piece + threadIdx.x; i < min((p + 1) * piece, count); i += THREADS)
                take(mine, slice[i]);
        }
    } else if (whole) {
        for (int i = threadIdx.x; i < count; i += THREADS)
            take(mine, from[i]);
    } else {
        for (int i = blockIdx.x * THREADS + threadIdx.x; i < cols; i += BLOCKS * THREADS)
            mine = merge(mine, {__bfloat162float(in[first + i]), 1.0f});
    }
    // Nobody writes to a block that has not started.
    cg::this_cluster().barrier_wait();
    mine = cluster_merge(mine, warps, blocks);
    const float shift = mine.largest + logf(mine.sum);
    if (held) {
#pragma unroll 4
        for (int i = threadIdx.x; i < count; i += THREADS)
            __stcs(to + i, shifted(slice[i], shift));
    } else if (whole) {
        for (int i = threadIdx.x; i < count; i += THREADS)
            __stcs(to + i, shifted(from[i], shift));
    } else {
        for (int i = blockIdx.x * THREADS + threadIdx.x; i < cols; i += BLOCKS * THREADS)
            out[first + i] = __float2bfloat16(__bfloat162float(in[first + i]) - shift);
    }
}
