#define THREADS 256
#define WARPS (THREADS / 32)
#define COUNTERS 1024
#define AHEAD 4

// A column of counters for each lane: whatever the levels, the lanes of a warp hit different banks.
__device__ __forceinline__ void count_at(char *own, unsigned place)
{
    atomicAdd(reinterpret_cast<int *>(own + (place & 0x7f80)), 1);
}

__device__ __forceinline__ void count16(char *own, const uint4 &v)
{
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        count_at(own, words[k] << 7);
        count_at(own, words[k] >> 1);
        count_at(own, words[k] >> 9);
        count_at(own, words[k] >> 17);
    }
}

extern "C" __global__ void __launch_bounds__(COUNTERS)
    count_levels(const unsigned char *__restrict__ image, int *__restrict__ counts, int n)
{
    __shared__ int bins[256 * 32];
    const int lane = threadIdx.x % 32, stride = gridDim.x * COUNTERS;
    for (int b = threadIdx.x; b < 256 * 32; b += COUNTERS)
        bins[b] = 0;
    __syncthreads();
    char *own = reinterpret_cast<char *>(bins + lane);
    const uint4 *quads = reinterpret_cast<const uint4 *>(image);
    int i = blockIdx.x * COUNTERS + threadIdx.x;
    const int tail = n / 16 * 16 + i;
    for (; i + (AHEAD - 1) * stride < n / 16; i += AHEAD * stride) {
        uint4 v[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            v[u] = __ldg(quads + i + u * stride);
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            count16(own, v[u]);
    }
    for (; i < n / 16; i += stride)
        count16(own, __ldg(quads + i));
    if (tail < n)
        count_at(own, image[tail] << 7);
    __syncthreads();
    for (int b = threadIdx.x / 32; b < 256; b += COUNTERS / 32) {
        int total = bins[b * 32 + lane];
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2)
            total += __shfl_xor_sync(0xffffffffu, total, offset);
        if (lane == 0 && total > 0)
            atomicAdd(&counts[b], total);
    }
}

__device__ __forceinline__ unsigned four_levels(const unsigned char *table, unsigned word)
{
    return table[word & 255u] | table[word >> 8 & 255u] << 8 | table[word >> 16 & 255u] << 16 |
           (unsigned)table[word >> 24] << 24;
}

// Every block makes the table for itself: a scan of 256 counts is cheaper than another launch.
extern "C" __global__ void __launch_bounds__(THREADS)
    equalize(const unsigned char *__restrict__ image, const int *__restrict__ counts, unsigned char *__restrict__ out,
             int n)
{
    __shared__ unsigned char table[256];
    __shared__ int sums[WARPS], firsts[WARPS];
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
    for (int w = WARPS - 1; w >= 0; w--) {
        if (firsts[w] > 0)
            lowest = firsts[w];
        if (w < warp)
            sum += sums[w];
    }
    table[level] = sum > lowest ? (long long)(sum - lowest) * 255 / (n - lowest) : 0;
    __syncthreads();
    const int stride = gridDim.x * THREADS, start = blockIdx.x * THREADS + threadIdx.x;
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
