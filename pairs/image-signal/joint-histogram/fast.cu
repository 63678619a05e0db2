#define THREADS 512
#define BINS 4096

// Neighbouring pixels often fall into one bin: a thread adds up its runs before it counts them.
struct run {
    int bin, length;
};

__device__ __forceinline__ void take(run &now, int *bins, int bin)
{
    if (bin != now.bin) {
        if (now.length)
            atomicAdd(bins + now.bin, now.length);
        now.bin = bin;
        now.length = 0;
    }
    now.length++;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    count(const unsigned char *__restrict__ first, const unsigned char *__restrict__ second, int *__restrict__ counts,
          int n)
{
    __shared__ int bins[BINS];
    for (int b = threadIdx.x; b < BINS; b += THREADS)
        bins[b] = 0;
    __syncthreads();
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
    for (int q = thread; q < n / 16; q += threads) {
        const uint4 a = __ldcs(reinterpret_cast<const uint4 *>(first) + q);
        const uint4 b = __ldcs(reinterpret_cast<const uint4 *>(second) + q);
        const unsigned left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
        run now = {0, 0};
#pragma unroll
        for (int w = 0; w < 4; w++)
#pragma unroll
            for (int shift = 0; shift < 32; shift += 8)
                take(now, bins, (left[w] >> shift & 252) * 16 + (right[w] >> shift & 252) / 4);
        atomicAdd(bins + now.bin, now.length);
    }
    for (int i = n / 16 * 16 + thread; i < n; i += threads)
        atomicAdd(bins + first[i] / 4 * 64 + second[i] / 4, 1);
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += THREADS)
        if (bins[b])
            atomicAdd(counts + b, bins[b]);
}
