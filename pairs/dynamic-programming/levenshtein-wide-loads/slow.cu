#define THREADS 128

typedef unsigned long long word;

__device__ __forceinline__ word add_carry(word a, word b, word &carry)
{
    const word half = a + b, sum = half + carry;
    carry = (half < a) | (sum < half);
    return sum;
}

// One column of the table: vertical differences of +1 and -1 as bits.
template <int WORDS>
__device__ __forceinline__ int next_column(word (&plus)[WORDS], word (&minus)[WORDS], const word (&low)[WORDS],
                                           const word (&high)[WORDS], int letter, int m)
{
    const word not_low = letter & 1 ? 0 : ~0ull, not_high = letter & 2 ? 0 : ~0ull;
    word carry = 0, plus_in = 1, minus_in = 0;
    int change = 0;
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
        const word same = (low[w] ^ not_low) & (high[w] ^ not_high);
        const word vertical = same | minus[w];
        const word horizontal = (add_carry(same & plus[w], plus[w], carry) ^ plus[w]) | same | minus[w];
        word up = minus[w] | ~(horizontal | plus[w]);
        word down = plus[w] & horizontal;
        if (w == WORDS - 1)
            change = static_cast<int>(up >> (m - 1) % 64 & 1) - static_cast<int>(down >> (m - 1) % 64 & 1);
        const word up_out = up >> 63, down_out = down >> 63;
        up = up << 1 | plus_in;
        down = down << 1 | minus_in;
        plus_in = up_out;
        minus_in = down_out;
        plus[w] = down | ~(vertical | up);
        minus[w] = up & vertical;
    }
    return change;
}

template <int WORDS>
__global__ void __launch_bounds__(THREADS)
    distance(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, int *__restrict__ distances,
             int pairs, int m, int n)
{
    const int pair = blockIdx.x * THREADS + threadIdx.x;
    if (pair >= pairs)
        return;
    const unsigned char *text_a = a + static_cast<size_t>(pair) * m;
    const unsigned char *text_b = b + static_cast<size_t>(pair) * n;
    word low[WORDS], high[WORDS], plus[WORDS], minus[WORDS];
#pragma unroll
    for (int w = 0; w < WORDS; w++) {
        low[w] = high[w] = minus[w] = 0;
        plus[w] = ~0ull;
        for (int k = 0; k < 64 && 64 * w + k < m; k++) {
            low[w] |= static_cast<word>(text_a[64 * w + k] & 1) << k;
            high[w] |= static_cast<word>(text_a[64 * w + k] >> 1 & 1) << k;
        }
    }
    int score = m;
    int i = 0;
    if (n % 16 == 0) {
        for (; i < n; i += 16) {
            const uint4 four = __ldg(reinterpret_cast<const uint4 *>(text_b + i));
            const unsigned parts[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int part = 0; part < 4; part++)
#pragma unroll 1
                for (int shift = 0; shift < 32; shift += 8)
                    score += next_column<WORDS>(plus, minus, low, high, parts[part] >> shift & 3, m);
        }
    }
    for (; i < n; i++)
        score += next_column<WORDS>(plus, minus, low, high, text_b[i], m);
    distances[pair] = score;
}
