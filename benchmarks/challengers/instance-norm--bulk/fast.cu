#include <cooperative_groups.h>
#include <cuda_fp16.h>

#define BLOCKS 8
#define THREADS 512
#define WARPS (THREADS / 32)
#define PIECES 4
#define HELD 4608
#define ALL 0xffffffffu

namespace cg = cooperative_groups;

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

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __half22float2(reinterpret_cast<const half2 *>(&bits)[j]);
}

__device__ __forceinline__ void add(float2 &sums, float value, float pivot)
{
    const float off = value - pivot;
    sums.x += off;
    sums.y = fmaf(off, off, sums.y);
}

__device__ __forceinline__ void add_eight(float2 (&sums)[2], const uint4 &bits, float pivot)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        add(sums[0], at(bits, j).x, pivot);
        add(sums[1], at(bits, j).y, pivot);
    }
}

__device__ __forceinline__ float leaky(float x, float slope) { return fmaxf(x, 0.0f) + slope * fminf(x, 0.0f); }

__device__ __forceinline__ uint4 scaled(const uint4 &bits, float by, float shift, float slope)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++)
        reinterpret_cast<half2 *>(&result)[j] = __floats2half2_rn(leaky(fmaf(at(bits, j).x, by, shift), slope),
                                                                  leaky(fmaf(at(bits, j).y, by, shift), slope));
    return result;
}

// A cluster a plane, each block an eighth of up to 294912 elements in shared memory. Sums of the distance from the plane's
// first value and of its square, so that mean and variance take one barrier of the cluster.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    instance_norm(const half *__restrict__ in, const half *__restrict__ weight, const half *__restrict__ bias,
                  half *__restrict__ out, int channels, int space, float eps, float slope)
{
    extern __shared__ uint4 slice[];
    __shared__ float2 warps[WARPS], blocks[BLOCKS];
    __shared__ unsigned long long ready[PIECES];
    const size_t first = static_cast<size_t>(blockIdx.y) * space;
    const int channel = blockIdx.y % channels, start = blockIdx.x * THREADS + threadIdx.x;
    const bool whole = space % 8 == 0;
    const int eights = whole ? space / 8 : 0, share = (eights + BLOCKS - 1) / BLOCKS;
    const int begin = min(eights, static_cast<int>(blockIdx.x) * share), count = min(eights, begin + share) - begin;
    const bool held = whole && share <= HELD;
    const uint4 *from = reinterpret_cast<const uint4 *>(in + first) + begin;
    uint4 *to = reinterpret_cast<uint4 *>(out + first) + begin;
    if (held && threadIdx.x == 0)
        request(slice, ready, from, count);
    cg::this_cluster().barrier_arrive();
    const float pivot = __half2float(in[first]);
    float2 sums[2] = {};
    __syncthreads();
    if (held) {
        const int piece = (count + PIECES - 1) / PIECES;
        for (int p = 0; p < PIECES; p++) {
            wait_for(ready + p);
#pragma unroll 2
            for (int i = p * piece + threadIdx.x; i < min((p + 1) * piece, count); i += THREADS)
                add_eight(sums, slice[i], pivot);
        }
    } else if (whole) {
#pragma unroll 4
        for (int i = threadIdx.x; i < count; i += THREADS)
            add_eight(sums, from[i], pivot);
    } else {
        for (int i = start; i < space; i += BLOCKS * THREADS)
            add(sums[0], __half2float(in[first + i]), pivot);
    }
    // Nobody writes to a block that has not started.
    cg::this_cluster().barrier_wait();
    const float2 total = cluster_sums(make_float2(sums[0].x + sums[1].x, sums[0].y + sums[1].y), warps, blocks);
    const float off = total.x / space, mean = pivot + off;
    const float by = rsqrtf(fmaxf(0.0f, total.y / space - off * off) + eps) * __half2float(weight[channel]);
    const float shift = fmaf(-mean, by, __half2float(bias[channel]));
    if (held) {
#pragma unroll 4
        for (int i = threadIdx.x; i < count; i += THREADS)
            __stcs(to + i, scaled(slice[i], by, shift, slope));
    } else if (whole) {
        // Backwards: what was read last is still in L2.
#pragma unroll 4
        for (int i = count - 1 - static_cast<int>(threadIdx.x); i >= 0; i -= THREADS)
            __stcs(to + i, scaled(__ldcs(from + i), by, shift, slope));
    } else {
        for (int i = start; i < space; i += BLOCKS * THREADS)
            out[first + i] = __float2half(leaky(fmaf(__half2float(in[first + i]), by, shift), slope));
    }
}
