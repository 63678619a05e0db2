#define THREADS 1024
#define LANES 32
#define AHEAD 8
#define BACK 2

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

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    equalize(const unsigned char *__restrict__ image, const int *__restrict__ counts,
             unsigned char *__restrict__ out, int n)
{
    __shared__ __align__(128) int table[256 * LANES];
    const unsigned own = threadIdx.x % LANES * 4;
    const uint4 *quads = reinterpret_cast<const uint4 *>(image);
    uint4 *to = reinterpret_cast<uint4 *>(out);
    const int stride = gridDim.x * THREADS;
    // From the end: what was counted last is still in L2.
    int i = n / 16 - 1 - static_cast<int>(blockIdx.x * THREADS + threadIdx.x);
    uint4 load[BACK];
#pragma unroll
    for (int u = 0; u < BACK; u++)
        if (i - u * stride >= 0)
            load[u] = __ldcs(quads + i - u * stride);
    make_table(table, counts, n);
    for (; i >= 0; i -= BACK * stride) {
#pragma unroll
        for (int u = 0; u < BACK; u++) {
            if (i - u * stride >= 0)
                put(to + i - u * stride, table, own, load[u]);
            if (i - (BACK + u) * stride >= 0)
                load[u] = __ldcs(quads + i - (BACK + u) * stride);
        }
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 16)
        out[n / 16 * 16 + threadIdx.x] = level_at(table, own, image[n / 16 * 16 + threadIdx.x] << 7);
}
