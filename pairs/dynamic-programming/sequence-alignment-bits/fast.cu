// Where two letters that differ cost as much as a letter without a partner, and equal ones nothing, a score is a number
// of edits in disguise, and neighbours differ by one at most: a lane keeps the differences along 32 columns as bits and
// does a row of them in about twenty instructions. Lanes run two rows apart, so that what a lane has found reaches the
// next one while both do a row between; strips of 32 lanes hand on 32 rows at a time, two bits each.
#define WARPS 4
#define THREADS (32 * WARPS)
#define STRIP 1024
#define SKEW 62
#define BEFORE 64
#define BEHIND 96
#define FULL 0xffffffffu
#define EMPTY 0xffffffffffffffffull

typedef unsigned long long word;

__device__ __forceinline__ word look(const word *from)
{
    word value;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
}

__device__ __forceinline__ void show(word *to, word value)
{
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

// The lowest bits of four bytes, side by side.
__device__ __forceinline__ unsigned lowest(unsigned four)
{
    return (four & 0x01010101u) * 0x01020408u >> 24;
}

// Where 32 letters equal each of four letters; those behind the end equal any.
__device__ __forceinline__ void note_letters(const unsigned char *__restrict__ text, int first, int end,
                                             unsigned *equal)
{
    unsigned low = 0, high = 0;
    for (int k = 0; k < 32 && first + k < end; k += 4) {
        unsigned four = 0;
        if (first + k + 4 <= end)
            four = *reinterpret_cast<const unsigned *>(text + first + k);
        else
            for (int c = 0; first + k + c < end; c++)
                four |= static_cast<unsigned>(text[first + k + c]) << 8 * c;
        low |= lowest(four) << k;
        high |= lowest(four >> 1) << k;
    }
    equal[0] = ~low & ~high;
    equal[THREADS] = low & ~high;
    equal[2 * THREADS] = ~low & high;
    equal[3 * THREADS] = low & high;
}

// Diagonal by diagonal by a single block, for any scores.
__device__ void score_by_cells(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, int *cells,
                               int *__restrict__ scores, int n, int m, int match, int mismatch, int gap)
{
    for (int k = 0; k <= n + m; k++) {
        const int *before_last = cells + (k + 1) % 3 * (n + 1), *last = cells + (k + 2) % 3 * (n + 1);
        for (int i = max(0, k - m) + threadIdx.x; i <= min(n, k); i += THREADS) {
            const int j = k - i;
            int best = -gap * k;
            if (i > 0 && j > 0)
                best = max(before_last[i - 1] + (a[i - 1] == b[j - 1] ? match : mismatch),
                           max(last[i - 1], last[i]) - gap);
            cells[k % 3 * (n + 1) + i] = best;
            if (i == n)
                scores[j] = best;
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    strips(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, word *edges, int *ticket,
           int *__restrict__ scores, int n, int m, int match, int mismatch, int gap)
{
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ unsigned equal[4 * THREADS];
    __shared__ int block;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, edit = mismatch + 2 * gap;
    if (threadIdx.x == 0)
        block = atomicAdd(ticket, 1);
    __syncthreads();
    if (edit < 0 || match + 2 * gap != 2 * edit) {
        if (block == 0)
            score_by_cells(a, b, reinterpret_cast<int *>(shared), scores, n, m, match, mismatch, gap);
        return;
    }
    const int batches = (n + 31) / 32;
    word *inner = reinterpret_cast<word *>(shared);
    unsigned char *text = shared + sizeof(word) * (WARPS - 1) * batches + BEFORE;
    for (int i = threadIdx.x; i < (WARPS - 1) * batches; i += THREADS)
        inner[i] = EMPTY;
    for (int i = 4 * threadIdx.x; i < n; i += 4 * THREADS)
        if (i + 4 <= n)
            *reinterpret_cast<unsigned *>(text + i) = *reinterpret_cast<const unsigned *>(a + i) & 0x03030303u;
        else
            for (int k = i; k < n; k++)
                text[k] = a[k] & 3;
    if (threadIdx.x < BEFORE)
        text[static_cast<int>(threadIdx.x) - BEFORE] = 0;
    if (threadIdx.x < BEHIND)
        text[n + threadIdx.x] = 0;
    const int strip = block * WARPS + warp, first = strip * STRIP + lane * 32;
    unsigned *own_equal = equal + threadIdx.x;
    note_letters(b, first, m, own_equal);
    __syncthreads();
    if (strip * STRIP >= m)
        return;
    const word *from = warp > 0 ? inner + (warp - 1) * batches : edges + static_cast<size_t>(block - 1) * batches;
    word *to = warp + 1 < WARPS ? inner + warp * batches : edges + static_cast<size_t>(block) * batches;

    // Bits of `plus` and `minus`: a cell is one more or one less than its left neighbour; of `rise` and `fall`: than
    // the one above. The left edge of the table rises by one a row.
    unsigned plus = FULL, minus = 0, rise = 0, fall = 0, rises = 0, falls = 0;
    unsigned left_rise = 0, left_fall = 0, edge_rise = FULL, edge_fall = 0;
    int base = strip == 0 ? n : strip * STRIP;
    word ahead = strip > 0 ? look(from) : 0;
    const unsigned char *letter = text - 2 * lane;
    // Two rows' equal letters and two more rows' letters are on their way from shared memory.
    unsigned same1 = own_equal[letter[0] * THREADS], same2 = own_equal[letter[1] * THREADS];
    unsigned letter1 = letter[2], letter2 = letter[3];
    const auto step = [&](int t, bool all) {
        const unsigned came_rise = __shfl_up_sync(FULL, rise, 1), came_fall = __shfl_up_sync(FULL, fall, 1);
        const unsigned same = same1;
        same1 = same2;
        same2 = own_equal[letter1 * THREADS];
        letter1 = letter2;
        letter2 = letter[t + 4];
        const int row = t - 2 * lane;
        if (all || (row >= 0 && row < n)) {
            const unsigned in_rise = lane == 0 ? edge_rise : left_rise, in_fall = lane == 0 ? edge_fall : left_fall;
            const unsigned fell = in_fall >> 31;
            const unsigned keeps = ((((same | fell) & plus) + plus) ^ plus) | (same | fell | minus);
            rise = minus | ~(keeps | plus);
            fall = plus & keeps;
            const unsigned up = __funnelshift_l(in_rise, rise, 1), down = __funnelshift_l(in_fall, fall, 1);
            plus = down | ~(keeps | up);
            minus = up & keeps;
            rises = __funnelshift_l(rise, rises, 1);
            falls = __funnelshift_l(fall, falls, 1);
        }
        edge_rise <<= 1;
        edge_fall <<= 1;
        left_rise = came_rise;
        left_fall = came_fall;
    };
    for (int t = 0; t < n + SKEW; t += 32) {
        if (t < n) {
            while (ahead == EMPTY)
                ahead = look(from + t / 32);
            __syncwarp();
            edge_rise = strip > 0 ? static_cast<unsigned>(ahead >> 32) : FULL;
            edge_fall = static_cast<unsigned>(ahead);
            base += strip > 0 ? __popc(edge_rise) - __popc(edge_fall) : 0;
            if (strip > 0 && t + 32 < n)
                ahead = look(from + t / 32 + 1);
        }
        if (t >= SKEW && t + 32 <= n) {
#pragma unroll
            for (int k = 0; k < 32; k++) {
                step(t + k, true);
                if (k == (SKEW + 31) % 32 && lane == 31)
                    show(to + (t + k - SKEW) / 32, static_cast<word>(rises) << 32 | falls);
            }
        } else {
#pragma unroll 1
            for (int k = t; k < min(t + 32, n + SKEW); k++) {
                step(k, false);
                const int row = k - SKEW, rest = 31 - row % 32;
                if (lane == 31 && row >= 0 && (rest == 0 || row == n - 1))
                    show(to + row / 32, static_cast<word>(rises << rest) << 32 | falls << rest);
            }
        }
    }
    // The last row: each lane's rise over its columns, the sum of those before it, and then column by column.
    int upto = __popc(plus) - __popc(minus);
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const int other = __shfl_up_sync(FULL, upto, offset);
        upto += lane >= offset ? other : 0;
    }
    const int before = base + upto - (__popc(plus) - __popc(minus));
    const unsigned these = 2u * (1u << lane) - 1;
#pragma unroll 4
    for (int other = 0; other < 32; other++) {
        const unsigned more = __shfl_sync(FULL, plus, other), less = __shfl_sync(FULL, minus, other);
        const int edits = __shfl_sync(FULL, before, other) + __popc(more & these) - __popc(less & these);
        const int column = strip * STRIP + other * 32 + lane + 1;
        if (column <= m)
            scores[column] = edit * (n + column - edits) - gap * (n + column);
    }
    if (strip == 0 && lane == 0)
        scores[0] = -gap * n;
}
