#define THREADS 1024
#define LANES 32
#define AHEAD 8
#define LEVELS 256

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

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    count_levels(const unsigned char *__restrict__ image, int *__restrict__ counts, int n)
{
    __shared__ __align__(128) int bins[256 * LANES];
    const unsigned own = threadIdx.x % LANES * 4;
    const uint4 *packed = reinterpret_cast<const uint4 *>(image);
    const int packs = n / 16, stride = gridDim.x * THREADS;
    int i = blockIdx.x * THREADS + threadIdx.x;
    uint4 load[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        if (i + u * stride < packs)
            load[u] = __ldg(packed + i + u * stride);
    clear(bins);
    // What was counted makes room for the next load at once, so that a warp always has loads under way.
    for (; i + (2 * AHEAD - 1) * stride < packs; i += AHEAD * stride) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            count16(bins, own, load[u]);
            load[u] = __ldg(packed + i + (AHEAD + u) * stride);
        }
    }
    for (; i < packs; i += AHEAD * stride) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            if (i + u * stride < packs)
                count16(bins, own, load[u]);
            if (i + (AHEAD + u) * stride < packs)
                load[u] = __ldg(packed + i + (AHEAD + u) * stride);
        }
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 16)
        count_at(bins, own, image[16 * packs + threadIdx.x] << 7);
    add_up(bins, counts);
}

__device__ __forceinline__ unsigned four_levels(const unsigned char *table, unsigned word)
{
    return table[word & 255u] | table[word >> 8 & 255u] << 8 | table[word >> 16 & 255u] << 16 |
           (unsigned)table[word >> 24] << 24;
}

// Every block makes the table for itself: a scan of 256 counts is cheaper than another launch.
extern "C" __global__ void __launch_bounds__(LEVELS)
    equalize(const unsigned char *__restrict__ image, const int *__restrict__ counts,
             unsigned char *__restrict__ out, int n)
{
    __shared__ unsigned char table[256];
    __shared__ int sums[(LEVELS / 32)], firsts[(LEVELS / 32)];
    const int level = threadIdx.x, lane = level % 32, warp = level / 32;
    const int count = counts[level];
    int sum = count;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
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
    __syncthreads();
    int lowest = 0;
#pragma unroll
    for (int w = (LEVELS / 32) - 1; w >= 0; w--) {
        if (firsts[w] > 0)
            lowest = firsts[w];
        if (w < warp)
            sum += sums[w];
    }
    table[level] = sum > lowest ? (long long)(sum - lowest) * 255 / (n - lowest) : 0;
    __syncthreads();
    const int stride = gridDim.x * LEVELS, start = blockIdx.x * LEVELS + threadIdx.x;
    const uint4 *quads = reinterpret_cast<const uint4 *>(image);
    // From the end: what was counted last is still in L2.
    for (int i = n / 16 - 1 - start; i >= 0; i -= stride) {
        const uint4 v = __ldcs(quads + i);
        __stcs(reinterpret_cast<uint4 *>(out) + i,
               make_uint4(four_levels(table, v.x), four_levels(table, v.y), four_levels(table, v.z),
                          four_levels(table, v.w)));
    }
    const int tail = n / 16 * 16 + start;
    if (tail < n)
        out[tail] = table[image[tail]];
}
