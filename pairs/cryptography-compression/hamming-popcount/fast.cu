#define WORDS 8
#define TILE 128

extern "C" __global__ void __launch_bounds__(TILE)
    match(const unsigned *__restrict__ queries, const unsigned *__restrict__ entries, unsigned *__restrict__ nearest,
          int count, int n)
{
    __shared__ unsigned tile[TILE * WORDS];
    const int q = blockIdx.x * TILE + threadIdx.x;
    unsigned own[WORDS];
#pragma unroll
    for (int w = 0; w < WORDS; w++)
        own[w] = q < count ? queries[q * WORDS + w] : 0;
    int best = 0, smallest = 32 * WORDS + 1;
    for (int start = 0; start < n; start += TILE) {
        const int here = min(TILE, n - start);
        __syncthreads();
        for (int i = threadIdx.x; i < here * WORDS; i += TILE)
            tile[i] = entries[start * WORDS + i];
        __syncthreads();
        for (int e = 0; e < here; e++) {
            int distance = 0;
#pragma unroll
            for (int w = 0; w < WORDS; w++)
                distance += __popc(own[w] ^ tile[e * WORDS + w]);
            if (distance < smallest) {
                smallest = distance;
                best = start + e;
            }
        }
    }
    if (q < count)
        nearest[q] = smallest << 20 | best;
}
