#include <cooperative_groups.h>

#define THREADS 1024
#define LANES 32
#define KEPT 12
#define AHEAD 6
#define BACK 3

// A column of counters for each lane: whatever the levels, the lanes of a warp hit different banks.
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

// L2 may drop these first: they are read once.
__device__ __forceinline__ void copy_async(uint4 *to, const uint4 *from)
{
    unsigned long long once;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "l"(once)
                 : "memory");
}

// The new level of every level, a column for each lane. Every block makes the table for itself.
__device__ __forceinline__ void make_table(int *table, const int *counts, int n)
{
    __shared__ int sums[8], firsts[8];
    __shared__ __align__(16) int levels[256];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    int sum = 0;
    if (threadIdx.x < 256) {
        const int count = __ldcg(counts + threadIdx.x);
        sum = count;
#pragma unroll
        for (int step = 1; step < LANES; step *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, sum, step);
            if (lane >= step)
                sum += other;
        }
        const unsigned present = __ballot_sync(0xffffffffu, count > 0);
        if (lane == 31)
            sums[warp] = sum;
        const int first = __shfl_sync(0xffffffffu, count, present ? __ffs(present) - 1 : 0);
        if (lane == 0)
            firsts[warp] = first;
    }
    __syncthreads();
    if (threadIdx.x < 256) {
        int lowest = 0;
#pragma unroll
        for (int w = 7; w >= 0; w--) {
            if (firsts[w] > 0)
                lowest = firsts[w];
            if (w < warp)
                sum += sums[w];
        }
        levels[threadIdx.x] = sum > lowest ? (long long)(sum - lowest) * 255 / (n - lowest) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < 256 * LANES / 4 / THREADS; u++) {
        const int at = threadIdx.x + u * THREADS, level = levels[at / (LANES / 4)];
        reinterpret_cast<int4 *>(table)[at] = make_int4(level, level, level, level);
    }
    __syncthreads();
}

__device__ __forceinline__ unsigned level_at(const int *table, unsigned own, unsigned place)
{
    const char *at = reinterpret_cast<const char *>(table) + ((place & 0x7f80) | own);
    return *reinterpret_cast<const unsigned *>(at);
}

__device__ __forceinline__ unsigned four_levels(const int *table, unsigned own, unsigned word)
{
    const unsigned a = level_at(table, own, word << 7), b = level_at(table, own, word >> 1);
    const unsigned c = level_at(table, own, word >> 9), d = level_at(table, own, word >> 17);
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

__device__ __forceinline__ void put(uint4 *to, const int *table, unsigned own, uint4 v)
{
    __stcs(to, make_uint4(four_levels(table, own, v.x), four_levels(table, own, v.y),
                          four_levels(table, own, v.z), four_levels(table, own, v.w)));
}

// One launch. What a thread read first waits in shared memory and what it read last in registers while the
// counts of the grid are added up; only what is between is read again, from L2.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    equalize(const unsigned char *__restrict__ image, int *counts, unsigned char *__restrict__ out, int n)
{
    extern __shared__ __align__(128) uint4 shared[];
    int *bins = reinterpret_cast<int *>(shared);
    uint4 *kept = shared + 256 * LANES / 4 + threadIdx.x;
    const unsigned own = threadIdx.x % LANES * 4;
    const int packs = n / 16, stride = gridDim.x * THREADS, thread = blockIdx.x * THREADS + threadIdx.x;
    const uint4 *quads = reinterpret_cast<const uint4 *>(image) + thread;
    uint4 *to = reinterpret_cast<uint4 *>(out) + thread;
    // The packs of this thread are stride apart; KEPT of them wait in shared memory.
    const int all = thread < packs ? (packs - thread - 1) / stride + 1 : 0, rest = max(0, all - KEPT);
#pragma unroll
    for (int s = 0; s < KEPT; s++) {
        if (s < all)
            copy_async(kept + s * THREADS, quads + s * stride);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    quads += KEPT * stride;
    // Only what will be read again is to stay in L2.
    uint4 load[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (u < rest)
            load[u] = u < rest - AHEAD ? __ldg(quads + u * stride) : __ldcs(quads + u * stride);
    clear(bins);
    // An empty group in place of each that was counted: all but KEPT - 1 are always the next one.
#pragma unroll
    for (int s = 0; s < KEPT; s++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(KEPT - 1) : "memory");
        if (s < all)
            count16(bins, own, kept[s * THREADS]);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int k = 0; k < rest; k += AHEAD) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            if (k + u < rest)
                count16(bins, own, load[u]);
            const int next = k + AHEAD + u;
            if (next < rest - AHEAD)
                load[u] = __ldg(quads + next * stride);
            else if (next < rest)
                load[u] = __ldcs(quads + next * stride);
        }
    }
    const int last = n / 16 * 16 + thread;
    if (last < n)
        count_at(bins, own, image[last] << 7);
    add_up(bins, counts);
    // Backwards: what was read last is the likeliest to be in L2.
    int k = rest - 1 - AHEAD;
    uint4 back[BACK];
#pragma unroll
    for (int u = 0; u < BACK; u++)
        if (k - u >= 0)
            back[u] = __ldcs(quads + (k - u) * stride);
    cooperative_groups::this_grid().sync();
    make_table(bins, counts, n);
    uint4 *after = to + KEPT * stride;
    for (; k >= 0; k -= BACK) {
#pragma unroll
        for (int u = 0; u < BACK; u++) {
            if (k - u >= 0)
                put(after + (k - u) * stride, bins, own, back[u]);
            if (k - BACK - u >= 0)
                back[u] = __ldcs(quads + (k - BACK - u) * stride);
        }
    }
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (u < rest)
            put(after + (u + (rest - 1 - u) / AHEAD * AHEAD) * stride, bins, own, load[u]);
#pragma unroll
    for (int s = 0; s < KEPT; s++)
        if (s < all)
            put(to + s * stride, bins, own, kept[s * THREADS]);
    if (last < n)
        out[last] = level_at(bins, own, image[last] << 7);
}
