#define THREADS 1024
#define WARPS (THREADS / 32)
#define DIGITS 16

// A block for each 1024 pairs, a thread for each of them.
extern "C" __global__ void count_digits(const unsigned *keys, int *counts, int n, int shift)
{
    __shared__ int own[DIGITS];
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (threadIdx.x < DIGITS)
        own[threadIdx.x] = 0;
    __syncthreads();
    if (i < n)
        atomicAdd(&own[keys[i] >> shift & 15], 1);
    __syncthreads();
    if (threadIdx.x < DIGITS)
        counts[threadIdx.x * gridDim.x + blockIdx.x] = own[threadIdx.x];
}

extern "C" __global__ void scan(int *counts, int n)
{
    __shared__ int sums[1024];
    int tid = threadIdx.x;
    int length = (n + 1023) / 1024;
    int begin = min(tid * length, n), end = min(begin + length, n);
    int sum = 0;
    for (int i = begin; i < end; i++)
        sum += counts[i];
    sums[tid] = sum;
    __syncthreads();
    for (int distance = 1; distance < 1024; distance *= 2) {
        int other = tid >= distance ? sums[tid - distance] : 0;
        __syncthreads();
        sums[tid] += other;
        __syncthreads();
    }
    int running = sums[tid] - sum;
    for (int i = begin; i < end; i++) {
        int count = counts[i];
        counts[i] = running;
        running += count;
    }
}

// A pair goes behind those of its digit in earlier warps and in earlier lanes of its own.
extern "C" __global__ void scatter(const unsigned *keys, const unsigned *values, const int *offsets, unsigned *to_keys,
                                   unsigned *to_values, int n, int shift)
{
    __shared__ int bins[WARPS][DIGITS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (threadIdx.x < WARPS * DIGITS)
        bins[threadIdx.x / DIGITS][threadIdx.x % DIGITS] = 0;
    __syncthreads();
    unsigned key = i < n ? keys[i] : 0;
    int digit = i < n ? key >> shift & 15 : DIGITS;
    unsigned peers = __match_any_sync(0xffffffffu, digit);
    int before = __popc(peers & ((1u << lane) - 1));
    if (before == 0 && i < n)
        bins[warp][digit] = __popc(peers);
    __syncthreads();
    if (i >= n)
        return;
    int place = offsets[digit * gridDim.x + blockIdx.x] + before;
    for (int w = 0; w < warp; w++)
        place += bins[w][digit];
    to_keys[place] = key;
    to_values[place] = values[i];
}
