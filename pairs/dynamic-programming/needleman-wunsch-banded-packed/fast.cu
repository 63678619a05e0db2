// Two pairs a warp, one in each half of a register, by DPX instructions on pairs of 16 bits; two diagonals per
// lane, of even and of odd offset. Only the first turns look where a sequence begins and the last where one ends, so
// that a turn between takes a dozen maxima and tests. Scores carry the gaps of their row and column: a gap costs nothing.
#define WARPS 4
#define HALF 32
#define EDGE 17
#define REACH 16
#define NEVER (-20000)
#define FULL 0xffffffffu

__device__ __forceinline__ unsigned twice(int value)
{
    return (static_cast<unsigned>(value) & 0xffffu) * 0x10001u;
}

__device__ __forceinline__ unsigned next_cell(unsigned across, unsigned one, unsigned other, unsigned letters,
                                              unsigned letters2, unsigned same, unsigned differ)
{
    const unsigned unequal = __vminu2(letters ^ letters2, 0x10001u) * 0xffffu;
    return __vmaxs2(__viaddmax_s16x2(across, same ^ (unequal & differ), one), other);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    align(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, const int *__restrict__ lengths,
          int *__restrict__ scores, int pairs, int longest, int match, int mismatch, int gap)
{
    extern __shared__ unsigned letters[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int couple = blockIdx.x * WARPS + warp;
    if (2 * couple >= pairs)
        return;
    const int pair[2] = {2 * couple, min(2 * couple + 1, pairs - 1)};
    unsigned *text_a = letters + 2 * warp * (longest + REACH), *text_b = text_a + longest + REACH;
    const unsigned char *first_a = a + static_cast<size_t>(pair[0]) * longest;
    const unsigned char *first_b = b + static_cast<size_t>(pair[0]) * longest;
    const size_t second = static_cast<size_t>(pair[1] - pair[0]) * longest;
    for (int k = lane; k < longest + REACH; k += 32) {
        text_a[k] = k < longest ? first_a[k] | first_a[second + k] << 16 : 0;
        text_b[k] = k < longest ? first_b[k] | first_b[second + k] << 16 : 0;
    }
    __syncwarp();
    int ends[2], lanes[2];
#pragma unroll
    for (int p = 0; p < 2; p++) {
        const int n = lengths[2 * pair[p]], m = lengths[2 * pair[p] + 1];
        ends[p] = n + m;
        lanes[p] = (m - n + HALF) / 2;
    }
    const int last = max(ends[0], ends[1]);
    const unsigned same = twice(match + 2 * gap), differ = same ^ twice(mismatch + 2 * gap), never = twice(NEVER);

    unsigned even = lane == HALF / 2 ? 0 : never, odd = never;
    // The letters of the lane's row and, of two columns, the one of the even diagonal: the odd one's comes next.
    const unsigned *of_a = text_a + HALF / 2 - 1 - lane, *of_b = text_b + lane - HALF / 2;
    const auto step = [&](int turn, bool begins, bool ends_near) {
        const int i = turn - lane + HALF / 2, j = turn + lane - HALF / 2;
        const unsigned letter = begins && i <= 0 ? 0u : of_a[turn];
        unsigned left = __shfl_up_sync(FULL, odd, 1);
        left = lane == 0 ? never : left;
        if (!begins || turn > 0) {
            even = next_cell(even, odd, left, letter, begins && j <= 0 ? 0u : of_b[turn - 1], same, differ);
            if (begins && (i < 0 || j < 0))
                even = never;
            else if (begins && (i == 0 || j == 0))
                even = 0;
        }
        unsigned up = __shfl_down_sync(FULL, even, 1);
        up = lane == 31 ? never : up;
        odd = next_cell(odd, even, up, letter, begins && j < 0 ? 0u : of_b[turn], same, differ);
        if (begins && (i < 0 || j < -1))
            odd = never;
        else if (begins && (i == 0 || j == -1))
            odd = 0;
        if (ends_near)
#pragma unroll
            for (int p = 0; p < 2; p++)
                if (ends[p] / 2 == turn && lane == lanes[p])
                    scores[pair[p]] = static_cast<short>((ends[p] % 2 ? odd : even) >> 16 * p) - gap * ends[p];
    };
    const int turns = last / 2 + 1, calm = min(ends[0], ends[1]) / 2;
    int turn = 0;
    for (; turn < min(EDGE, turns); turn++)
        step(turn, true, true);
#pragma unroll 4
    for (; turn < calm; turn++)
        step(turn, false, false);
    for (; turn < turns; turn++)
        step(turn, false, true);
}
