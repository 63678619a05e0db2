#define SIDE 16
#define REACH 8
#define ACROSS (2 * REACH + 1)
#define ROWS (SIDE + 2 * REACH)
#define WARPS 4
#define TALL 3
#define GROUPS 5
// Words of a row of the window of all blocks; the pitch gives every lane of a warp another bank.
#define WORDS (4 * WARPS + 4)
#define PITCH 23
#define THREADS (32 * WARPS)
#define FULL 0xffffffffu

// The sum of four bytes' differences, added up by the units for products: those for integers have
// enough to do.
__device__ __forceinline__ unsigned add_differences(unsigned a, unsigned b, unsigned sum)
{
    return __dp4a(__vabsdiffu4(a, b), 0x01010101u, sum);
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

// A warp a block, four neighbours in one window in shared memory. A lane tries four moves across by three down, so that
// words moved by a byte serve three rows of the block, of which four bytes take one instruction.
extern "C" __global__ void __launch_bounds__(THREADS)
    search(const unsigned char *__restrict__ now, const unsigned char *__restrict__ before, int *__restrict__ moves,
           int *__restrict__ costs, int height, int width)
{
    __shared__ uint4 blocks[WARPS][SIDE];
    __shared__ unsigned window[(ROWS + 1) * PITCH]; // moves past the last read a word and a row more
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int y = blockIdx.y * SIDE, x = blockIdx.x * SIDE * WARPS;
    for (int item = threadIdx.x; item < WARPS * SIDE * 4; item += THREADS) {
        const int i = item / (4 * WARPS), word = item % (4 * WARPS);
        reinterpret_cast<unsigned *>(blocks[word / 4])[4 * i + word % 4] =
            take(now + static_cast<size_t>(y + i) * width, x + 4 * word, width);
    }
    for (int item = threadIdx.x; item < ROWS * WORDS; item += THREADS) {
        const int i = item / WORDS, word = item % WORDS;
        const int row = min(max(y - REACH + i, 0), height - 1);
        window[i * PITCH + word] = take(before + static_cast<size_t>(row) * width, x - REACH + 4 * word, width);
    }
    __syncthreads();
    const int across = width / SIDE, column = blockIdx.x * WARPS + warp;
    if (column >= across)
        return;
    // Lanes 30 and 31, and moves past the last, repeat others.
    const int tall = min(lane / GROUPS, (ACROSS + TALL - 1) / TALL - 1), group = lane % GROUPS;
    unsigned sum[TALL][4] = {};
    uint4 own[TALL];
#pragma unroll
    for (int i = 0; i < SIDE + TALL - 1; i++) {
        // Row i of the lane's part of the window meets row i - d of the block for a move d further down.
#pragma unroll
        for (int d = TALL - 1; d > 0; d--)
            own[d] = own[d - 1];
        if (i < SIDE)
            own[0] = blocks[warp][i];
        const unsigned *row = window + (tall * TALL + i) * PITCH + 4 * warp + group;
        const unsigned word[5] = {row[0], row[1], row[2], row[3], row[4]};
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const unsigned there = __funnelshift_r(word[w], word[w + 1], 8 * s);
#pragma unroll
                for (int d = 0; d < TALL; d++)
                    if (i - d >= 0 && i - d < SIDE) {
                        const unsigned mine[4] = {own[d].x, own[d].y, own[d].z, own[d].w};
                        sum[d][s] = add_differences(mine[w], there, sum[d][s]);
                    }
            }
    }
    unsigned best = FULL;
#pragma unroll
    for (int d = 0; d < TALL; d++)
#pragma unroll
        for (int s = 0; s < 4; s++)
            if (tall * TALL + d < ACROSS && group * 4 + s < ACROSS)
                best = min(best, sum[d][s] << 9 | ((tall * TALL + d) * ACROSS + group * 4 + s));
    best = __reduce_min_sync(FULL, best);
    if (lane == 0) {
        moves[blockIdx.y * across + column] = best & 511;
        costs[blockIdx.y * across + column] = best >> 9;
    }
}
