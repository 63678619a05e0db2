#include <cooperative_groups.h>

#define THREADS 1024
#define LANES 32
#define STAGES 8

// A column of counters for each lane: whatever the bytes, the lanes of a warp hit different banks.
__device__ __forceinline__ void count_at(int *bins, unsigned own, unsigned place)
{
    atomicAdd(reinterpret_cast<int *>(reinterpret_cast<char *>(bins) + ((place & 0x7f80) | own)), 1);
}

__device__ __forceinline__ void count4(int *bins, unsigned own, unsigned word)
{
    count_at(bins, own, word << 7);
    count_at(bins, own, word >> 1);
    count_at(bins, own, word >> 9);
    count_at(bins, own, word >> 17);
}

__device__ __forceinline__ void count16(int *bins, unsigned own, uint4 load)
{
    count4(bins, own, load.x);
    count4(bins, own, load.y);
    count4(bins, own, load.z);
    count4(bins, own, load.w);
}

__device__ __forceinline__ void clear(int *bins)
{
#pragma unroll
    for (int u = 0; u < 256 * LANES / 4 / THREADS; u++)
        reinterpret_cast<uint4 *>(bins)[threadIdx.x + u * THREADS] = make_uint4(0, 0, 0, 0);
    __syncthreads();
}

// Four lanes share a bin, each with eight of its columns, no two of a warp in one bank; eight neighbouring
// counts go to memory at a time.
__device__ __forceinline__ void add_up(const int *bins, int *counts)
{
    __syncthreads();
    const int lane = threadIdx.x % LANES;
    for (int bin = threadIdx.x / LANES * 8 + lane % 8; bin < 256; bin += THREADS / 4) {
        int total = 0;
#pragma unroll
        for (int j = 0; j < 8; j++)
            total += bins[bin * LANES + (lane + j) % LANES];
        total += __shfl_xor_sync(0xffffffffu, total, 8);
        total += __shfl_xor_sync(0xffffffffu, total, 16);
        if (lane < 8 && total > 0)
            atomicAdd(counts + bin, total);
    }
}

__device__ __forceinline__ void copy_async(uint4 *to, const uint4 *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    histogram(const unsigned char *__restrict__ bytes, int *__restrict__ counts, int n)
{
    extern __shared__ __align__(128) uint4 shared[];
    int *bins = reinterpret_cast<int *>(shared);
    const unsigned own = threadIdx.x % LANES * 4;
    const uint4 *packed = reinterpret_cast<const uint4 *>(bytes);
    const int packs = n / 16, stride = gridDim.x * THREADS;
    int i = blockIdx.x * THREADS + threadIdx.x;
    // A ring for each thread, which alone writes and reads it: waiting for copies needs no barrier.
    uint4 *ring = shared + 256 * LANES / 4 + threadIdx.x;
#pragma unroll
    for (int s = 0; s < STAGES; s++) {
        if (i + s * stride < packs)
            copy_async(ring + s * THREADS, packed + i + s * stride);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    if (blockIdx.x == 0 && threadIdx.x < 256)
        counts[threadIdx.x] = 0;
    clear(bins);
    // Saves the launch that would set the counts to zero; the first loads are under way meanwhile.
    cooperative_groups::this_grid().sync();
    // Not unrolled: sixteen bytes are enough for a loop, and a short one stays in the instruction cache.
#pragma unroll 1
    for (unsigned s = 0; i < packs; i += stride) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
        count16(bins, own, ring[s * THREADS]);
        if (i + STAGES * stride < packs)
            copy_async(ring + s * THREADS, packed + i + STAGES * stride);
        asm volatile("cp.async.commit_group;" ::: "memory");
        s = (s + 1) % STAGES;
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 16)
        count_at(bins, own, bytes[16 * packs + threadIdx.x] << 7);
    add_up(bins, counts);
}
