// Two pairs a warp, one in each half of a register: DPX instructions on pairs of 16 bits do both at once. A lane
// owns CELLS columns; what leaves a strip on the right waits in global memory for the next one.
#define CELLS 8
#define STRIP (32 * CELLS)
#define THREADS 64
#define FULL 0xffffffffu
#define LEAST 0x80008000u

__device__ __forceinline__ unsigned twice(int value)
{
    return (static_cast<unsigned>(value) & 0xffffu) * 0x10001u;
}

__device__ __forceinline__ unsigned add2(unsigned a, unsigned b)
{
    return __viaddmax_s16x2(a, b, LEAST);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    align(const unsigned char *__restrict__ queries, const unsigned char *__restrict__ targets, uint2 *edges,
          int *__restrict__ best, int pairs, int m, int n, int match, int mismatch, int open, int extend)
{
    const int lane = threadIdx.x % 32;
    const int couple = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (2 * couple >= pairs)
        return;
    const size_t one = 2 * couple, other = min(2 * couple + 1, pairs - 1);
    const unsigned char *query = queries + one * m, *query2 = queries + other * m;
    const unsigned char *target = targets + one * n, *target2 = targets + other * n;
    uint2 *edge = edges + static_cast<size_t>(couple) * n;
    const unsigned begun = twice(-open), both = twice(-open - extend), more_gap = twice(-extend);
    const unsigned same = twice(match), differ = twice(match) ^ twice(mismatch);
    unsigned highest = 0;
    for (int strip = 0; strip < m; strip += STRIP) {
        const int first = strip + lane * CELLS;
        const bool more = strip + STRIP < m;
        unsigned letter[CELLS], h[CELLS], opened[CELLS], f[CELLS];
#pragma unroll
        for (int c = 0; c < CELLS; c++) {
            letter[c] = first + c < m ? query[first + c] | query2[first + c] << 16 : twice(256);
            h[c] = 0;
            opened[c] = both;
            f[c] = begun;
        }
        unsigned diagonal = 0, row_letter = 0, own_letter = 0, out_h = 0, out_e = begun;
        uint2 own_edge = make_uint2(0, begun);
        for (int step = 0; step < n + 31; step++) {
            if (step % 32 == 0) {
                const int row = step + lane;
                own_letter = row < n ? target[row] | target2[row] << 16 : twice(257);
                if (strip > 0)
                    own_edge = row < n ? edge[row] : make_uint2(0, begun);
                __syncwarp();
            }
            unsigned left = __shfl_up_sync(FULL, out_h, 1);
            unsigned e = __shfl_up_sync(FULL, out_e, 1);
            row_letter = __shfl_up_sync(FULL, row_letter, 1);
            const unsigned next_letter = __shfl_sync(FULL, own_letter, step % 32);
            const unsigned next_h = __shfl_sync(FULL, own_edge.x, step % 32);
            const unsigned next_e = __shfl_sync(FULL, own_edge.y, step % 32);
            if (lane == 0) {
                row_letter = next_letter;
                left = next_h;
                e = next_e;
            }
            const int row = step - lane;
            if (row >= 0 && row < n) {
                const unsigned above_left = left;
                unsigned left_opened = add2(left, both);
#pragma unroll
                for (int c = 0; c < CELLS; c++) {
                    e = __viaddmax_s16x2(e, more_gap, left_opened);
                    f[c] = __viaddmax_s16x2(f[c], more_gap, opened[c]);
                    const unsigned unequal = __vminu2(row_letter ^ letter[c], 0x10001u) * 0xffffu;
                    left = __viaddmax_s16x2_relu(diagonal, same ^ (unequal & differ), __vmaxs2(e, f[c]));
                    diagonal = h[c];
                    h[c] = left;
                    left_opened = opened[c] = add2(left, both);
                    highest = __vmaxs2(highest, left);
                }
                diagonal = above_left;
                out_h = left;
                out_e = e;
                if (more && lane == 31)
                    edge[row] = make_uint2(left, e);
            }
        }
        __syncwarp();
    }
    const int low = __reduce_max_sync(FULL, static_cast<int>(highest & 0xffffu));
    const int high = __reduce_max_sync(FULL, static_cast<int>(highest >> 16));
    if (lane == 0) {
        best[one] = low;
        best[other] = one == other ? low : high;
    }
}
