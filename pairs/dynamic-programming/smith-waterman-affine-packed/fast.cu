// Two pairs in the halves of a register, by DPX instructions on pairs of 16 bits, and two such couples a warp: sixteen
// lanes own sixteen columns each. What a query's letter gains against each of four letters are the bytes of a register,
// from which a row's two letters, as a selector, take two numbers of 16 bits in one instruction; cells keep only
// what opening a gap from them would leave. Lanes look where rows begin and end in the first and the last steps alone.
#define CELLS 16
#define LANES 16
#define STRIP (LANES * CELLS)
#define COUPLES 4
#define THREADS (LANES * COUPLES)
#define FULL 0xffffffffu
#define LEAST 0x80008000u
#define NEVER 0x80808080u

__device__ __forceinline__ unsigned twice(int value)
{
    return (static_cast<unsigned>(value) & 0xffffu) * 0x10001u;
}

// Two bytes of `low` and `high`, widened to 16 bits with their signs.
__device__ __forceinline__ unsigned take(unsigned low, unsigned high, unsigned selector)
{
    unsigned both;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(both) : "r"(low), "r"(high), "r"(selector));
    return both;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    align(const unsigned char *__restrict__ queries, const unsigned char *__restrict__ targets, uint2 *edges,
          int *__restrict__ best, int pairs, int m, int n, int match, int mismatch, int open, int extend)
{
    extern __shared__ unsigned short selectors[];
    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    const int couple = blockIdx.x * COUPLES + group;
    // A couple that is too much does the last one again, so that all lanes of a warp go on; it leaves nothing behind.
    const bool spare = 2 * couple >= pairs;
    const size_t one = spare ? pairs - 1 : 2 * couple, other = spare ? one : min(2 * couple + 1, pairs - 1);
    const unsigned char *query = queries + one * m, *query2 = queries + other * m;
    const unsigned char *target = targets + one * n, *target2 = targets + other * n;
    uint2 *edge = edges + static_cast<size_t>(couple) * n;
    const unsigned begun = twice(-open), both = twice(-open - extend), more_gap = twice(-extend);
    const unsigned differ = (static_cast<unsigned>(mismatch + open + extend) & 0xffu) * 0x01010101u;
    const unsigned same = ((match + open + extend) ^ (mismatch + open + extend)) & 0xff;
    unsigned short *own_selectors = selectors + group * n;
    for (int row = lane; row < n; row += LANES)
        own_selectors[row] = 0xc480 + (target[row] & 3) * 0x11 + (target2[row] & 3) * 0x1100;
    __syncwarp();
    unsigned highest = 0;
    for (int strip = 0; strip < m; strip += STRIP) {
        const int first = strip + lane * CELLS;
        const bool more = strip + STRIP < m && lane == LANES - 1 && !spare, edged = strip > 0 && lane == 0 && !spare;
        unsigned gain[CELLS], gain2[CELLS], opened[CELLS], f[CELLS];
#pragma unroll
        for (int c = 0; c < CELLS; c++) {
            gain[c] = gain2[c] = NEVER;
            if (first + c < m) {
                gain[c] = differ ^ same << 8 * (query[first + c] & 3);
                gain2[c] = differ ^ same << 8 * (query2[first + c] & 3);
            }
            opened[c] = both;
            f[c] = begun;
        }
        unsigned corner = both, out_e = begun;
        uint2 next_edge = edged ? edge[0] : make_uint2(both, begun);
        const auto step = [&](int now, bool inside) {
            unsigned left = __shfl_up_sync(FULL, opened[CELLS - 1], 1, LANES);
            unsigned e = __shfl_up_sync(FULL, out_e, 1, LANES);
            if (lane == 0) {
                left = next_edge.x;
                e = next_edge.y;
            }
            if (edged && now + 1 < n)
                next_edge = edge[now + 1];
            const int row = now - lane;
            if (inside || (row >= 0 && row < n)) {
                const unsigned selector = own_selectors[row];
                unsigned diagonal = corner, before = 0;
                corner = left;
#pragma unroll
                for (int c = 0; c < CELLS; c++) {
                    e = __viaddmax_s16x2(e, more_gap, left);
                    f[c] = __viaddmax_s16x2(f[c], more_gap, opened[c]);
                    const unsigned h = __viaddmax_s16x2_relu(diagonal, take(gain[c], gain2[c], selector),
                                                             __vmaxs2(e, f[c]));
                    diagonal = opened[c];
                    left = opened[c] = __viaddmax_s16x2(h, both, LEAST);
                    if (c % 2 == 0)
                        before = h;
                    else
                        highest = __vimax3_s16x2(highest, before, h);
                }
                out_e = e;
                if (more)
                    edge[row] = make_uint2(left, e);
            }
        };
        int now = 0;
#pragma unroll 1
        for (; now < LANES - 1; now++)
            step(now, false);
#pragma unroll 4
        for (; now < n; now++)
            step(now, true);
#pragma unroll 1
        for (; now < n + LANES - 1; now++)
            step(now, false);
        __syncwarp();
    }
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2)
        highest = __vmaxs2(highest, __shfl_xor_sync(FULL, highest, offset));
    if (lane == 0 && !spare) {
        best[one] = highest & 0xffffu;
        if (other != one)
            best[other] = highest >> 16;
    }
}
