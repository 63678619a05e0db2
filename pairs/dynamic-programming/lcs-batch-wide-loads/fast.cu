// A string is read once, sixteen letters a load, and kept as two words of bits for 64 letters.
#define THREADS 64

typedef unsigned long long word;

// The lowest bits of four bytes, side by side.
__device__ __forceinline__ unsigned lowest(unsigned four)
{
    return (four & 0x01010101u) * 0x01020408u >> 24;
}

// Both bits of 64 letters as words, letters that are missing as zeros; sixteen a load where the strings allow it.
__device__ __forceinline__ void read_letters(const unsigned char *__restrict__ text, int first, int end, bool wide,
                                             word &low, word &high)
{
    low = high = 0;
    if (wide) {
#pragma unroll
        for (int part = 0; part < 4; part++) {
            const int at = first + 16 * part;
            if (at < end) {
                const uint4 v = __ldg(reinterpret_cast<const uint4 *>(text + at));
                const unsigned l = lowest(v.x) | lowest(v.y) << 4 | lowest(v.z) << 8 | lowest(v.w) << 12;
                const unsigned h = lowest(v.x >> 1) | lowest(v.y >> 1) << 4 | lowest(v.z >> 1) << 8 |
                                   lowest(v.w >> 1) << 12;
                low |= static_cast<word>(l) << 16 * part;
                high |= static_cast<word>(h) << 16 * part;
            }
        }
    } else {
        for (int k = 0; k < 64 && first + k < end; k++) {
            low |= static_cast<word>(text[first + k] & 1) << k;
            high |= static_cast<word>(text[first + k] >> 1 & 1) << k;
        }
    }
}

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
        read_letters(text_a, 64 * w, m, m % 16 == 0, low[w], high[w]);
        flat[w] = ~0ull;
    }
    word next_low, next_high;
    read_letters(text_b, 0, n, n % 16 == 0, next_low, next_high);
    for (int i = 0; i < n; i += 64) {
        word row_low = next_low, row_high = next_high;
        read_letters(text_b, i + 64, n, n % 16 == 0, next_low, next_high);
#pragma unroll 4
        for (int left = min(64, n - i); left > 0; left--) {
            const word not_low = (row_low & 1) - 1, not_high = (row_high & 1) - 1;
            row_low >>= 1;
            row_high >>= 1;
            word carry = 0;
#pragma unroll
            for (int w = 0; w < WORDS; w++) {
                const word same = (low[w] ^ not_low) & (high[w] ^ not_high) & flat[w];
                const word half = flat[w] + same, sum = half + carry;
                carry = (half < same) | (sum < half);
                flat[w] = sum | (flat[w] - same);
            }
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
