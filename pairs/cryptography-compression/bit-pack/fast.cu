// A block packs VALUES values: 16 bytes a load into shared memory, then a thread gathers whole words from there.
#define THREADS 256
#define VALUES 2048

template <int BITS>
__global__ void __launch_bounds__(THREADS)
    pack(const unsigned *__restrict__ values, unsigned *__restrict__ words, int n)
{
    __shared__ __align__(16) unsigned staged[VALUES];
    constexpr int WORDS = VALUES / 32 * BITS;
    const int first = blockIdx.x * VALUES;
#pragma unroll
    for (int i = 0; i < VALUES / (4 * THREADS); i++) {
        const int k = 4 * (i * THREADS + threadIdx.x), at = first + k;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (at + 4 <= n) {
            v = __ldg(reinterpret_cast<const uint4 *>(values + at));
        } else {
            if (at < n)
                v.x = values[at];
            if (at + 1 < n)
                v.y = values[at + 1];
            if (at + 2 < n)
                v.z = values[at + 2];
        }
        *reinterpret_cast<uint4 *>(staged + k) = v;
    }
    __syncthreads();
    const long long total = ((long long)n * BITS + 31) / 32;
    const long long base = (long long)blockIdx.x * WORDS;
#pragma unroll
    for (int w = threadIdx.x; w < WORDS; w += THREADS) {
        const int value = 32 * w / BITS;
        const int skipped = 32 * w - value * BITS;
        unsigned word = staged[value] >> skipped;
#pragma unroll
        for (int k = 1; k <= 31 / BITS + 1; k++) {
            const int shift = k * BITS - skipped;
            if (shift < 32)
                word |= staged[value + k] << shift;
        }
        if (base + w < total)
            words[base + w] = word;
    }
}
