// A block's table has two counters of 16 bits a word, so that 65536 bins fit its shared memory. Whoever brings a
// counter to LIMIT takes that much away and adds it in global memory. Between two barriers a block counts at most
// LIMIT values, so that no counter passes 2 * LIMIT.
#define THREADS 1024
#define LOADS 2
#define LIMIT (THREADS * 8 * LOADS)

__device__ __forceinline__ void count(unsigned *own, int *__restrict__ counts, unsigned value)
{
    const unsigned shift = value % 2 * 16;
    const unsigned before = atomicAdd(own + value / 2, 1u << shift) >> shift & 0xffffu;
    if (before == LIMIT - 1) {
        atomicSub(own + value / 2, static_cast<unsigned>(LIMIT) << shift);
        atomicAdd(counts + value, LIMIT);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    histogram(const unsigned short *__restrict__ values, int *__restrict__ counts, int n, int bins)
{
    extern __shared__ unsigned own[];
    const int words = (bins + 1) / 2;
    for (int w = threadIdx.x; w < words; w += THREADS)
        own[w] = 0;
    __syncthreads();
    const uint4 *eight = reinterpret_cast<const uint4 *>(values);
    const int step = gridDim.x * THREADS * LOADS, vectors = n / 8;
    for (int base = blockIdx.x * THREADS * LOADS; base < vectors; base += step) {
        uint4 packed[LOADS];
#pragma unroll
        for (int u = 0; u < LOADS; u++) {
            const int q = base + u * THREADS + threadIdx.x;
            if (q < vectors)
                packed[u] = __ldcs(eight + q);
        }
#pragma unroll
        for (int u = 0; u < LOADS; u++) {
            if (base + u * THREADS + threadIdx.x >= vectors)
                continue;
            const unsigned word[4] = {packed[u].x, packed[u].y, packed[u].z, packed[u].w};
#pragma unroll
            for (int w = 0; w < 4; w++) {
                count(own, counts, word[w] & 0xffffu);
                count(own, counts, word[w] >> 16);
            }
        }
        __syncthreads();
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 8)
        count(own, counts, values[n / 8 * 8 + threadIdx.x]);
    __syncthreads();
    for (int w = threadIdx.x; w < words; w += THREADS) {
        const unsigned both = own[w];
        if (both & 0xffffu)
            atomicAdd(counts + 2 * w, static_cast<int>(both & 0xffffu));
        if (both >> 16)
            atomicAdd(counts + 2 * w + 1, static_cast<int>(both >> 16));
    }
}
