// Where two letters that differ cost as much as a letter without a partner, and equal ones nothing, a score is a number
// of edits in disguise, and neighbours differ by one at most: a thread keeps a band's differences as two words of bits
// and does a row of 64 cells in about thirty instructions. Where the texts' letters are equal is looked up by letter.
#define THREADS 64
#define HALF 32
#define BAND (2 * HALF)

typedef unsigned long long word;

// The lowest bits of four bytes, side by side.
__device__ __forceinline__ unsigned lowest(unsigned four)
{
    return (four & 0x01010101u) * 0x01020408u >> 24;
}

// 32 letters of a text, four a word; those behind its end are zeros.
__device__ __forceinline__ void read_letters(const unsigned char *__restrict__ text, int first, int end,
                                             unsigned (&fours)[8])
{
    if (end % 16 == 0) {
#pragma unroll
        for (int part = 0; part < 2; part++) {
            const int at = first + 16 * part;
            const uint4 v = at < end ? __ldg(reinterpret_cast<const uint4 *>(text + at)) : make_uint4(0, 0, 0, 0);
            fours[4 * part] = v.x;
            fours[4 * part + 1] = v.y;
            fours[4 * part + 2] = v.z;
            fours[4 * part + 3] = v.w;
        }
    } else {
#pragma unroll
        for (int f = 0; f < 8; f++) {
            fours[f] = 0;
            for (int k = 0; k < 4 && first + 4 * f + k < end; k++)
                fours[f] |= static_cast<unsigned>(text[first + 4 * f + k]) << 8 * k;
        }
    }
}

// Where 32 letters of b equal each of four letters; the words of a thread are THREADS apart.
__device__ __forceinline__ void note_letters(const unsigned (&fours)[8], unsigned *equal)
{
    unsigned low = 0, high = 0;
#pragma unroll
    for (int f = 0; f < 8; f++) {
        low |= lowest(fours[f]) << 4 * f;
        high |= lowest(fours[f] >> 1) << 4 * f;
    }
    equal[0] = ~low & ~high;
    equal[THREADS] = low & ~high;
    equal[2 * THREADS] = ~low & high;
    equal[3 * THREADS] = low & high;
}

// The next row of the band, a column further right. Bits of `plus` and `minus`: the cell there is one more or one less
// than its left neighbour. Cells outside the band count as one more than the cell diagonally before both.
__device__ __forceinline__ void next_row(word &plus, word &minus, int &kept, const unsigned *equal, int shift)
{
    const unsigned middle = equal[4 * THREADS];
    const word same = static_cast<word>(__funnelshift_r(middle, equal[8 * THREADS], shift)) << 32 |
                      __funnelshift_r(equal[0], middle, shift);
    const word keeps = (((same & plus) + plus) ^ plus) | same | minus;
    const word down = minus | ~(keeps | plus), up = plus & keeps;
    kept += static_cast<int>(keeps >> HALF) & 1;
    plus = up | ~(keeps >> 1 | down);
    minus = down & keeps >> 1;
}

// Cell by cell, for any scores.
__device__ __forceinline__ int score_by_cells(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b,
                                              int n, int m, int match, int mismatch, int gap, int *cells)
{
    for (int i = 0; i <= n; i++) {
        for (int p = 0; p < BAND; p++) {
            const int j = i - HALF + p;
            if (j < 0 || j > m)
                continue;
            int best = i == 0 ? -gap * j : j == 0 ? -gap * i : -0x40000000;
            if (i > 0 && j > 0)
                best = cells[p * THREADS] + (a[i - 1] == b[j - 1] ? match : mismatch);
            if (i > 0 && p + 1 < BAND)
                best = max(best, cells[(p + 1) * THREADS] - gap);
            if (j > 0 && p > 0)
                best = max(best, cells[(p - 1) * THREADS] - gap);
            cells[p * THREADS] = best;
        }
    }
    return cells[(m - n + HALF) * THREADS];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    align(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, const int *__restrict__ lengths,
          int *__restrict__ scores, int pairs, int longest, int match, int mismatch, int gap)
{
    extern __shared__ unsigned table[];
    const int pair = blockIdx.x * THREADS + threadIdx.x;
    if (pair >= pairs)
        return;
    const unsigned char *text_a = a + static_cast<size_t>(pair) * longest;
    const unsigned char *text_b = b + static_cast<size_t>(pair) * longest;
    const int n = lengths[2 * pair], m = lengths[2 * pair + 1], edit = mismatch + 2 * gap;
    unsigned *equal = table + threadIdx.x;
    if (m - n < -HALF || m - n >= HALF)
        return;
    if (edit < 0 || match + 2 * gap != 2 * edit) {
        scores[pair] = score_by_cells(text_a, text_b, n, m, match, mismatch, gap, reinterpret_cast<int *>(equal));
        return;
    }
    // Before b's first letter and behind its last word nothing is equal.
    const int words = (longest + 31) / 32;
#pragma unroll
    for (int letter = 0; letter < 4; letter++)
        equal[letter * THREADS] = equal[(4 * words + 4 + letter) * THREADS] = 0;
    unsigned fours[8], next[8];
    read_letters(text_b, 0, longest, next);
    for (int w = 0; w < words; w++) {
#pragma unroll
        for (int f = 0; f < 8; f++)
            fours[f] = next[f];
        read_letters(text_b, 32 * (w + 1), longest, next);
        note_letters(fours, equal + 4 * (w + 1) * THREADS);
    }
    word plus = 0xffffffffull << HALF, minus = 0xffffffffull;
    int kept = 0, row = 0;
    read_letters(text_a, 0, longest, next);
    for (; row + 32 <= n; row += 32, equal += 4 * THREADS) {
#pragma unroll
        for (int f = 0; f < 8; f++)
            fours[f] = next[f] & 0x03030303u;
        read_letters(text_a, row + 32, longest, next);
#pragma unroll
        for (int k = 0; k < 32; k++)
            next_row(plus, minus, kept, equal + __byte_perm(fours[k / 4], 0, 0x4404 + k % 4 * 16) / 256 * THREADS, k);
    }
    for (int k = 0; row + k < n; k++)
        next_row(plus, minus, kept, equal + (text_a[row + k] & 3) * THREADS, k);
    // From the diagonal that was followed, where both texts are n letters long, along the row to the last cell.
    const int end = m - n + HALF;
    const word between = end > HALF ? (1ull << end) - (1ull << HALF) : (1ull << HALF) - (1ull << end);
    const int rise = __popcll(plus & between) - __popcll(minus & between);
    const int edits = n - kept + (end > HALF ? rise : -rise);
    scores[pair] = edit * (n + m - edits) - gap * (n + m);
}
