// Eight steps a launch on bits in registers: the first launch makes them from bytes as it reads, the last makes bytes
// again. A lane has a column of 64 words of 32 cells, of which the outer eight rows on either side are stepped along and
// dropped; after four steps the outermost four are left alone. A word takes twelve operations a step.
#define ROWS 48
#define AHEAD 8
#define HELD (ROWS + 2 * AHEAD)
#define WARPS 4
#define FULL 0xffffffffu

// For each of 32 cells how many of it and its two neighbours in the row live: ones and twos.
struct Sums {
    unsigned one, two;
};

__device__ __forceinline__ Sums sums_of(unsigned own)
{
    const unsigned before = __shfl_up_sync(FULL, own, 1), after = __shfl_down_sync(FULL, own, 1);
    const unsigned left = __funnelshift_l(before, own, 1), right = __funnelshift_r(own, after, 1);
    return {left ^ own ^ right, (left & own) | (right & (left | own))};
}

// A cell lives on when it and its neighbours are three, or four of which it is one.
__device__ __forceinline__ unsigned lives(Sums a, Sums b, Sums c, unsigned own, unsigned inside)
{
    const unsigned ones = a.one ^ b.one ^ c.one, carry = (a.one & b.one) | (c.one & (a.one | b.one));
    const unsigned odd = a.two ^ b.two ^ c.two, pair = (a.two & b.two) | (c.two & (a.two | b.two));
    const unsigned twos = odd ^ carry;
    // Two or three, or else four or five; the last bit and the cell itself decide which.
    const unsigned few = (twos & ~pair) | (~twos & (pair ^ odd)), fits = (twos & ones) | (~twos & ~ones & own);
    return few & fits & inside;
}

// Steps on the rows but the FIRST outer ones on either side. RIM: some rows lie outside the board and stay dead.
template <int FIRST, bool RIM>
__device__ __forceinline__ void advance(unsigned (&row)[HELD], int count, unsigned inside, int y, int height)
{
#pragma unroll 1
    for (int step = 0; step < count; step++) {
        Sums above = sums_of(row[FIRST - 1]), here = sums_of(row[FIRST]);
#pragma unroll
        for (int i = FIRST; i < HELD - FIRST; i++) {
            const Sums below = sums_of(row[i + 1]);
            const unsigned result = lives(above, here, below, row[i], inside);
            row[i] = !RIM || (y + i >= 0 && y + i < height) ? result : 0;
            above = here;
            here = below;
        }
    }
}

struct Place {
    int x, y, stride;
    unsigned inside;
};

// The outer two columns of a warp are only read; `inside` has the bits of cells on the board.
__device__ __forceinline__ Place place(int width)
{
    Place at;
    at.stride = (width + 31) / 32;
    at.x = blockIdx.x * 30 - 1 + static_cast<int>(threadIdx.x % 32);
    at.y = (blockIdx.y * WARPS + static_cast<int>(threadIdx.x / 32)) * ROWS - AHEAD;
    at.inside = 0;
    if (at.x >= 0 && at.x < at.stride)
        at.inside = width - 32 * at.x >= 32 ? FULL : (1u << (width - 32 * at.x)) - 1;
    return at;
}

__device__ __forceinline__ void step_all(unsigned (&row)[HELD], const Place &at, int height, int count)
{
    if (at.y >= 0 && at.y + HELD <= height) {
        advance<1, false>(row, min(count, AHEAD / 2), at.inside, at.y, height);
        advance<1 + AHEAD / 2, false>(row, count - AHEAD / 2, at.inside, at.y, height);
    } else {
        advance<1, true>(row, min(count, AHEAD / 2), at.inside, at.y, height);
        advance<1 + AHEAD / 2, true>(row, count - AHEAD / 2, at.inside, at.y, height);
    }
}

__device__ __forceinline__ void read_words(unsigned (&row)[HELD], const unsigned *__restrict__ words, const Place &at,
                                           int height)
{
#pragma unroll
    for (int i = 0; i < HELD; i++)
        row[i] = at.inside && at.y + i >= 0 && at.y + i < height
                     ? __ldg(words + static_cast<size_t>(at.y + i) * at.stride + at.x)
                     : 0;
}

__device__ __forceinline__ void write_words(const unsigned (&row)[HELD], unsigned *__restrict__ words, const Place &at,
                                            int height)
{
    const int lane = threadIdx.x % 32;
    if (lane == 0 || lane == 31 || !at.inside)
        return;
#pragma unroll
    for (int i = AHEAD; i < AHEAD + ROWS; i++)
        if (at.y + i < height)
            words[static_cast<size_t>(at.y + i) * at.stride + at.x] = row[i];
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 3)
    first_steps(const unsigned char *__restrict__ cells, unsigned *__restrict__ words, int height, int width, int count)
{
    const Place at = place(width);
    const int lane = threadIdx.x % 32;
    unsigned row[HELD], seen = 0;
    if (width % 32 == 0) {
        // What lies outside is read from the nearest place inside: no load waits for another.
        const unsigned char *column = cells + 32 * min(max(at.x, 0), at.stride - 1);
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            const uint4 *from = reinterpret_cast<const uint4 *>(
                column + static_cast<size_t>(min(max(at.y + i, 0), height - 1)) * width);
            unsigned word = 0;
#pragma unroll
            for (int part = 0; part < 2; part++) {
                const uint4 four = __ldg(from + part);
                const unsigned low = __dp4a(four.x, 0x08040201u, __dp4a(four.y, 0x80402010u, 0u));
                const unsigned high = __dp4a(four.z, 0x08040201u, __dp4a(four.w, 0x80402010u, 0u));
                word += (low + (high << 8)) << 16 * part;
                seen |= four.x | four.y | four.z | four.w;
            }
            row[i] = at.y + i >= 0 && at.y + i < height ? word & at.inside : 0;
        }
    }
    // Other bytes than nought and one go the way of ragged rows.
    if (width % 32 != 0 || __any_sync(FULL, seen & 0xfefefefeu)) {
        // A word at a time, a byte a lane.
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            row[i] = 0;
            if (at.y + i >= 0 && at.y + i < height)
#pragma unroll 1
                for (int word = 0; word < 32; word++) {
                    const int x = (at.x - lane + word) * 32 + lane;
                    const bool alive =
                        x >= 0 && x < width && cells[static_cast<size_t>(at.y + i) * width + x] != 0;
                    const unsigned bits = __ballot_sync(FULL, alive);
                    row[i] = word == lane ? bits : row[i];
                }
        }
    }
    step_all(row, at, height, count);
    write_words(row, words, at, height);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 3)
    steps_ahead(const unsigned *__restrict__ words, unsigned *__restrict__ next, int height, int width, int count)
{
    const Place at = place(width);
    unsigned row[HELD];
    read_words(row, words, at, height);
    step_all(row, at, height, count);
    write_words(row, next, at, height);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 3)
    last_steps(const unsigned *__restrict__ words, unsigned char *__restrict__ cells, int height, int width, int count)
{
    const Place at = place(width);
    const int lane = threadIdx.x % 32;
    unsigned row[HELD];
    read_words(row, words, at, height);
    step_all(row, at, height, count);
    if (width % 32 == 0) {
        if (lane == 0 || lane == 31 || !at.inside)
            return;
#pragma unroll
        for (int i = AHEAD; i < AHEAD + ROWS; i++) {
            if (at.y + i >= height)
                break;
            uint4 *to = reinterpret_cast<uint4 *>(cells + static_cast<size_t>(at.y + i) * width + 32 * at.x);
#pragma unroll
            for (int part = 0; part < 2; part++) {
                unsigned four[4];
#pragma unroll
                for (int k = 0; k < 4; k++)
                    four[k] = (row[i] >> (16 * part + 4 * k) & 15u) * 0x00204081u & 0x01010101u;
                __stcs(to + part, make_uint4(four[0], four[1], four[2], four[3]));
            }
        }
        return;
    }
#pragma unroll
    for (int i = AHEAD; i < AHEAD + ROWS; i++)
        if (at.y + i < height)
#pragma unroll 1
            for (int word = 1; word < 31; word++) {
                const int x = (at.x - lane + word) * 32 + lane;
                const unsigned bits = __shfl_sync(FULL, row[i], word);
                if (x < width)
                    cells[static_cast<size_t>(at.y + i) * width + x] = bits >> lane & 1;
            }
}
