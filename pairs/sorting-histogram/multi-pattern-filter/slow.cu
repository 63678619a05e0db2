#define THREADS 256
#define MOST 256
#define BUCKETS 1024
#define FULL 0xffffffffu

__device__ __forceinline__ int bucket_of(unsigned prefix)
{
    return prefix * 2654435761u >> 22;
}

// Four letters choose a chain of patterns; most places of the text find theirs empty.
extern "C" __global__ void __launch_bounds__(THREADS)
    count(const unsigned char *__restrict__ text, const unsigned char *__restrict__ patterns, int *__restrict__ counts,
          int n, int m, int several)
{
    __shared__ int heads[BUCKETS];
    __shared__ int nexts[MOST], found[MOST];
    __shared__ unsigned prefixes[MOST];
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        heads[b] = -1;
    __syncthreads();
    for (int p = threadIdx.x; p < several; p += THREADS) {
        unsigned prefix = 0;
#pragma unroll
        for (int j = 0; j < 4; j++)
            prefix |= static_cast<unsigned>(patterns[p * m + j]) << 8 * j;
        prefixes[p] = prefix;
        found[p] = 0;
        nexts[p] = atomicExch(heads + bucket_of(prefix), p);
    }
    __syncthreads();
    const int lane = threadIdx.x % 32;
    const int chunks = (n + 15) / 16, stride = gridDim.x * THREADS;
    for (int first = blockIdx.x * THREADS; first < chunks; first += stride) {
        const int at = (first + threadIdx.x) * 16;
        unsigned words[5] = {};
        if (at + 16 <= n) {
            const uint4 own = __ldg(reinterpret_cast<const uint4 *>(text + at));
            words[0] = own.x, words[1] = own.y, words[2] = own.z, words[3] = own.w;
        } else {
            for (int j = 0; j < 16; j++)
                if (at + j < n)
                    words[j / 4] |= static_cast<unsigned>(text[at + j]) << 8 * (j % 4);
        }
        words[4] = __shfl_down_sync(FULL, words[0], 1);
        if (lane == 31) {
            words[4] = 0;
            for (int j = 16; j < 19; j++)
                if (at + j < n)
                    words[4] |= static_cast<unsigned>(text[at + j]) << 8 * (j - 16);
        }
#pragma unroll
        for (int s = 0; s < 16; s++) {
            const unsigned prefix = __funnelshift_r(words[s / 4], words[s / 4 + 1], 8 * (s % 4));
            for (int p = heads[bucket_of(prefix)]; p >= 0; p = nexts[p]) {
                if (prefixes[p] != prefix || at + s + m > n)
                    continue;
                int matched = 4;
                while (matched < m && text[at + s + matched] == patterns[p * m + matched])
                    matched++;
                if (matched == m)
                    atomicAdd(found + p, 1);
            }
        }
    }
    __syncthreads();
    for (int p = threadIdx.x; p < several; p += THREADS)
        if (found[p])
            atomicAdd(counts + p, found[p]);
}
