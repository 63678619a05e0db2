#define THREADS 128

typedef unsigned long long word;

// A column of the table as bits, zero where it grows by one; a letter costs a few operations for 64 rows.
template <int WORDS>
__global__ void __launch_bounds__(THREADS)
    longest(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, int *__restrict__ lengths,
            int pairs, int m, int n)
{
    const int pair = blockIdx.x * THREADS + threadIdx.x;
    if (pair >= pairs)
        return;
    const unsigned char *text_a = a + static_cast<size_t>(pair) * m;
    const unsigned char *text_b = b + static_cast<size_t>(pair) * n;
    word low[WORDS], high[WORDS], flat[WORDS];
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
        low[w] = high[w] = 0;
        flat[w] = ~0ull;
        for (int k = 0; k < 64 && 64 * w + k < m; k++) {
            low[w] |= static_cast<word>(text_a[64 * w + k] & 1) << k;
            high[w] |= static_cast<word>(text_a[64 * w + k] >> 1 & 1) << k;
        }
    }
    unsigned letters = 0;
    for (int i = 0; i < n; i++) {
        if (n % 4 == 0) {
            if (i % 4 == 0)
                letters = __ldg(reinterpret_cast<const unsigned *>(text_b + i));
        } else {
            letters = static_cast<unsigned>(text_b[i]) << 8 * (i % 4);
        }
        const unsigned letter = letters >> 8 * (i % 4);
        const word not_low = letter & 1 ? 0 : ~0ull, not_high = letter & 2 ? 0 : ~0ull;
        word carry = 0;
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            const word same = (low[w] ^ not_low) & (high[w] ^ not_high) & flat[w];
            const word half = flat[w] + same, sum = half + carry;
            carry = (half < same) | (sum < half);
            flat[w] = sum | (flat[w] - same);
        }
    }
    int length = 0;
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
        const word used = m - 64 * w >= 64 ? ~0ull : (1ull << (m - 64 * w)) - 1;
        length += __popcll(~flat[w] & used);
    }
    lengths[pair] = length;
}
