#define SIDE 16
#define REACH 8
#define ACROSS (2 * REACH + 1)
#define ROWS (SIDE + 2 * REACH)
#define WARPS 4
#define TALL 2
// Words of a row of the window of all blocks. Even rows of a copy come first, odd ones from place ODD on, so that lanes
// two rows apart, and lanes one row apart, meet different banks.
#define WORDS (4 * WARPS + 4)
#define ODD 20
#define COPY ((ODD + ROWS / 2) * WORDS)
#define THREADS (32 * WARPS)
#define FULL 0xffffffffu

// The sum of four bytes' differences, added up by the units for products: those for integers have
// enough to do.
__device__ __forceinline__ unsigned add_differences(unsigned a, unsigned b, unsigned sum)
{
    return __dp4a(__vabsdiffu4(a, b), 0x01010101u, sum);
}

__device__ __forceinline__ unsigned add_row(uint4 a, uint4 b, unsigned sum)
{
    sum = add_differences(a.x, b.x, sum);
    sum = add_differences(a.y, b.y, sum);
    sum = add_differences(a.z, b.z, sum);
    return add_differences(a.w, b.w, sum);
}

__device__ __forceinline__ unsigned take(const unsigned char *__restrict__ row, int x, int width)
{
    if (width % 4 == 0 && x >= 0 && x < width)
        return __ldg(reinterpret_cast<const unsigned *>(row + x));
    unsigned four = 0;
#pragma unroll
    for (int s = 0; s < 4; s++)
        four |= static_cast<unsigned>(row[min(max(x + s, 0), width - 1)]) << 8 * s;
    return four;
}

__device__ __forceinline__ constexpr int place_of(int row)
{
    return row / 2 + row % 2 * ODD;
}

// Eight words of a row: four for each of four moves that are four pixels apart.
struct Stretch {
    uint4 low, high;

    __device__ __forceinline__ uint4 from(int word) const
    {
        const unsigned words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        return make_uint4(words[word], words[word + 1], words[word + 2], words[word + 3]);
    }
};

__device__ __forceinline__ Stretch stretch_at(const unsigned *at)
{
    return {*reinterpret_cast<const uint4 *>(at), *reinterpret_cast<const uint4 *>(at + 4)};
}

// A warp a block, four neighbours in one window in shared memory, of which there are four copies, each moved by a pixel:
// no lane has to put a word together. A lane tries moves s, s + 4, s + 8 and s + 12 across by two down; of the 33 moves
// that remain, those furthest to the right take a lane each, and those furthest down are shared by all, two rows a lane.
extern "C" __global__ void __launch_bounds__(THREADS)
    search(const unsigned char *__restrict__ now, const unsigned char *__restrict__ before, int *__restrict__ moves,
           int *__restrict__ costs, int height, int width)
{
    __shared__ uint4 blocks[WARPS][SIDE];
    __shared__ uint4 copies[4 * COPY / 4];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int y = blockIdx.y * SIDE, x = blockIdx.x * SIDE * WARPS;
    for (int item = threadIdx.x; item < WARPS * SIDE * 4; item += THREADS) {
        const int i = item / (4 * WARPS), word = item % (4 * WARPS);
        reinterpret_cast<unsigned *>(blocks[word / 4])[4 * i + word % 4] =
            take(now + static_cast<size_t>(y + i) * width, x + 4 * word, width);
    }
    unsigned coming[ROWS / WARPS];
#pragma unroll
    for (int k = 0; k < ROWS / WARPS; k++) {
        const int row = min(max(y - REACH + warp + k * WARPS, 0), height - 1);
        coming[k] = lane <= WORDS ? take(before + static_cast<size_t>(row) * width, x - REACH + 4 * lane, width) : 0;
    }
#pragma unroll
    for (int k = 0; k < ROWS / WARPS; k++) {
        const unsigned next = __shfl_down_sync(FULL, coming[k], 1);
        unsigned *to = reinterpret_cast<unsigned *>(copies) + place_of(warp + k * WARPS) * WORDS + lane;
        if (lane < WORDS) {
#pragma unroll
            for (int s = 0; s < 4; s++)
                to[s * COPY] = __funnelshift_r(coming[k], next, 8 * s);
        }
    }
    __syncthreads();
    const int across = width / SIDE, column = blockIdx.x * WARPS + warp;
    if (column >= across)
        return;
    const int shift = lane / 8, group = lane % 8;
    const unsigned *window = reinterpret_cast<const unsigned *>(copies) + 4 * warp;
    const unsigned *own_window = window + shift * COPY + group * WORDS;
    // The moves furthest to the right, one a lane: its even and its odd rows. Lanes past the last repeat it.
    const int right = min(lane, ACROSS - 1);
    const unsigned *even = window + place_of(right) * WORDS + SIDE / 4, *odd = window + place_of(right + 1) * WORDS + SIDE / 4;
    unsigned sum[TALL][4] = {}, last = 0;
    uint4 own[TALL] = {};
#pragma unroll
    for (int i = 0; i < SIDE + TALL - 1; i++) {
        // Row i of the lane's part of the window meets row i - d of the block for a move d further down.
        own[1] = own[0];
        if (i < SIDE) {
            own[0] = blocks[warp][i];
            last = add_row(own[0], *reinterpret_cast<const uint4 *>((i % 2 ? odd : even) + i / 2 * WORDS), last);
        }
        const Stretch there = stretch_at(own_window + place_of(i) * WORDS);
#pragma unroll
        for (int q = 0; q < 4; q++)
#pragma unroll
            for (int d = 0; d < TALL; d++)
                if (i - d >= 0 && i - d < SIDE)
                    sum[d][q] = add_row(own[d], there.from(q), sum[d][q]);
    }
    unsigned below[4] = {};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint4 mine = blocks[warp][2 * group + i];
        const Stretch there = stretch_at(own_window + place_of(SIDE + i) * WORDS);
#pragma unroll
        for (int q = 0; q < 4; q++)
            below[q] = add_row(mine, there.from(q), below[q]);
    }
    unsigned best = last << 9 | (right * ACROSS + 2 * REACH);
#pragma unroll
    for (int q = 0; q < 4; q++) {
#pragma unroll
        for (int step = 1; step < 8; step *= 2)
            below[q] += __shfl_xor_sync(FULL, below[q], step);
        best = min(best, below[q] << 9 | (2 * REACH * ACROSS + 4 * q + shift));
#pragma unroll
        for (int d = 0; d < TALL; d++)
            best = min(best, sum[d][q] << 9 | ((group * TALL + d) * ACROSS + 4 * q + shift));
    }
    best = __reduce_min_sync(FULL, best);
    if (lane == 0) {
        moves[blockIdx.y * across + column] = best & 511;
        costs[blockIdx.y * across + column] = best >> 9;
    }
}
