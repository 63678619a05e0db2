#define THREADS 256
#define WARPS (THREADS / 32)

extern "C" __global__ void __launch_bounds__(THREADS)
    count_levels(const unsigned char *__restrict__ image, int *__restrict__ counts, int n)
{
    __shared__ int own[WARPS][256];
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        own[w][threadIdx.x] = 0;
    __syncthreads();
    const int stride = gridDim.x * THREADS, start = blockIdx.x * THREADS + threadIdx.x;
    const uint4 *quads = reinterpret_cast<const uint4 *>(image);
    for (int i = start; i < n / 16; i += stride) {
        const uint4 v = __ldg(quads + i);
        const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int shift = 0; shift < 32; shift += 8)
                atomicAdd(&own[warp][words[k] >> shift & 255u], 1);
    }
    const int tail = n / 16 * 16 + start;
    if (tail < n)
        atomicAdd(&own[warp][image[tail]], 1);
    __syncthreads();
    int sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        sum += own[w][threadIdx.x];
    if (sum > 0)
        atomicAdd(&counts[threadIdx.x], sum);
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
    for (int i = start; i < n / 16; i += stride) {
        const uint4 v = __ldg(quads + i);
        reinterpret_cast<uint4 *>(out)[i] = make_uint4(four_levels(table, v.x), four_levels(table, v.y),
                                                       four_levels(table, v.z), four_levels(table, v.w));
    }
    const int tail = n / 16 * 16 + start;
    if (tail < n)
        out[tail] = table[image[tail]];
}
