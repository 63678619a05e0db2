#define THREADS 256
#define MOST 256

// Patterns' first four letters in shared memory, compared at once; the rest only where they fit.
extern "C" __global__ void __launch_bounds__(THREADS)
    count(const unsigned char *__restrict__ text, const unsigned char *__restrict__ patterns, int *__restrict__ counts,
          int n, int m, int several)
{
    __shared__ unsigned prefixes[MOST];
    __shared__ int found[MOST];
    for (int p = threadIdx.x; p < several; p += THREADS) {
        unsigned prefix = 0;
        for (int j = 0; j < 4; j++)
            prefix |= static_cast<unsigned>(patterns[p * m + j]) << 8 * j;
        prefixes[p] = prefix;
        found[p] = 0;
    }
    __syncthreads();
    const int stride = gridDim.x * THREADS;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i + m <= n; i += stride) {
        unsigned window = 0;
        for (int j = 0; j < 4; j++)
            window |= static_cast<unsigned>(text[i + j]) << 8 * j;
        for (int p = 0; p < several; p++) {
            if (prefixes[p] != window)
                continue;
            int matched = 4;
            while (matched < m && text[i + matched] == patterns[p * m + matched])
                matched++;
            if (matched == m)
                atomicAdd(found + p, 1);
        }
    }
    __syncthreads();
    for (int p = threadIdx.x; p < several; p += THREADS)
        if (found[p])
            atomicAdd(counts + p, found[p]);
}
