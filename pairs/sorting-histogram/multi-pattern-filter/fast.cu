#define THREADS 512
#define MOST 256
#define BUCKETS 1024
#define FILTER_BITS 16
#define FULL 0xffffffffu

__device__ __forceinline__ int bucket_of(unsigned prefix)
{
    return prefix * 2654435761u >> 22;
}

// Where a pattern's first eight letters (or as many as it has) lead in the filter: one byte of many.
__device__ __forceinline__ unsigned filter_place(unsigned first, unsigned second, unsigned factor)
{
    return (first * 2654435761u + second * factor) >> (32 - FILTER_BITS);
}

// Nearly every place of the text is ruled out by one byte of a filter, without a branch: a byte is read where its place
// says, while a bit would have to be cut out of a word. Of the others four letters choose a chain of patterns.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    count(const unsigned char *__restrict__ text, const unsigned char *__restrict__ patterns, int *__restrict__ counts,
          int n, int m, int several)
{
    __shared__ int heads[BUCKETS];
    __shared__ int nexts[MOST], found[MOST];
    __shared__ unsigned prefixes[MOST];
    extern __shared__ uint4 filter4[];
    unsigned char *filter = reinterpret_cast<unsigned char *>(filter4);
    // Letters behind a pattern's end fall out at the top of the product.
    const unsigned factor = m > 4 ? 2246822519u << 8 * max(8 - m, 0) : 0;
    for (int w = threadIdx.x; w < (1 << FILTER_BITS) / 16; w += THREADS)
        filter4[w] = make_uint4(0, 0, 0, 0);
    for (int b = threadIdx.x; b < BUCKETS; b += THREADS)
        heads[b] = -1;
    __syncthreads();
    for (int p = threadIdx.x; p < several; p += THREADS) {
        unsigned prefix = 0;
#pragma unroll
        for (int j = 0; j < 4; j++)
            prefix |= static_cast<unsigned>(patterns[p * m + j]) << 8 * j;
        unsigned second = 0;
        for (int j = 4; j < min(m, 8); j++)
            second |= static_cast<unsigned>(patterns[p * m + j]) << 8 * (j - 4);
        const unsigned place = filter_place(prefix, second, factor);
        atomicOr(reinterpret_cast<unsigned *>(filter4) + place / 4, 1u << 8 * (place % 4));
        prefixes[p] = prefix;
        found[p] = 0;
        nexts[p] = atomicExch(heads + bucket_of(prefix), p);
    }
    __syncthreads();
    const int lane = threadIdx.x % 32;
    const int chunks = (n + 15) / 16, stride = gridDim.x * THREADS;
    for (int first = blockIdx.x * THREADS; first < chunks; first += stride) {
        const int at = (first + threadIdx.x) * 16;
        unsigned words[6] = {};
        if (at + 16 <= n) {
            const uint4 own = __ldg(reinterpret_cast<const uint4 *>(text + at));
            words[0] = own.x, words[1] = own.y, words[2] = own.z, words[3] = own.w;
        } else {
            for (int j = 0; j < 16; j++)
                if (at + j < n)
                    words[j / 4] |= static_cast<unsigned>(text[at + j]) << 8 * (j % 4);
        }
        words[4] = __shfl_down_sync(FULL, words[0], 1);
        words[5] = __shfl_down_sync(FULL, words[1], 1);
        if (lane == 31) {
            words[4] = words[5] = 0;
            if (at + 24 <= n) {
                const uint2 more = __ldg(reinterpret_cast<const uint2 *>(text + at + 16));
                words[4] = more.x, words[5] = more.y;
            } else {
                for (int j = 16; j < 24; j++)
                    if (at + j < n)
                        words[j / 4] |= static_cast<unsigned>(text[at + j]) << 8 * (j % 4);
            }
        }
        unsigned maybe = 0;
#pragma unroll
        for (int s = 0; s < 16; s++) {
            const unsigned first_four = __funnelshift_r(words[s / 4], words[s / 4 + 1], 8 * (s % 4));
            const unsigned next_four = __funnelshift_r(words[s / 4 + 1], words[s / 4 + 2], 8 * (s % 4));
            maybe |= static_cast<unsigned>(filter[filter_place(first_four, next_four, factor)]) << s;
        }
        for (; maybe; maybe &= maybe - 1) {
            const int here = at + __ffs(maybe) - 1;
            if (here + m > n)
                break;
            unsigned prefix = 0;
#pragma unroll
            for (int j = 0; j < 4; j++)
                prefix |= static_cast<unsigned>(text[here + j]) << 8 * j;
            for (int p = heads[bucket_of(prefix)]; p >= 0; p = nexts[p]) {
                if (prefixes[p] != prefix)
                    continue;
                int matched = 4;
                while (matched < m && text[here + matched] == patterns[p * m + matched])
                    matched++;
                if (matched == m)
                    atomicAdd(found + p, 1);
            }
        }
        __syncwarp();
    }
    __syncthreads();
    for (int p = threadIdx.x; p < several; p += THREADS)
        if (found[p])
            atomicAdd(counts + p, found[p]);
}
