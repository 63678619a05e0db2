#define CELLS 8
#define STRIP (32 * CELLS)
#define THREADS 128
#define FULL 0xffffffffu

extern "C" __global__ void __launch_bounds__(THREADS)
    align(const unsigned char *__restrict__ queries, const unsigned char *__restrict__ targets, int2 *edges,
          int *__restrict__ best, int pairs, int m, int n, int match, int mismatch, int open, int extend)
{
    const int lane = threadIdx.x % 32;
    const int pair = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (pair >= pairs)
        return;
    const unsigned char *query = queries + static_cast<size_t>(pair) * m;
    const unsigned char *target = targets + static_cast<size_t>(pair) * n;
    int2 *edge = edges + static_cast<size_t>(pair) * n;
    const int both = -open - extend;
    int highest = 0;
    for (int strip = 0; strip < m; strip += STRIP) {
        const int first = strip + lane * CELLS;
        const bool more = strip + STRIP < m;
        int letter[CELLS], h[CELLS], f[CELLS];
#pragma unroll
        for (int c = 0; c < CELLS; c++) {
            letter[c] = first + c < m ? query[first + c] : 256;
            h[c] = 0;
            f[c] = -open;
        }
        int diagonal = 0, row_letter = 0, own_letter = 0, out_h = 0, out_e = -open;
        int2 own_edge = make_int2(0, -open);
        for (int step = 0; step < n + 31; step++) {
            if (step % 32 == 0) {
                const int row = step + lane;
                own_letter = row < n ? target[row] : 257;
                if (strip > 0)
                    own_edge = row < n ? edge[row] : make_int2(0, -open);
                __syncwarp();
            }
            int left = __shfl_up_sync(FULL, out_h, 1);
            int e = __shfl_up_sync(FULL, out_e, 1);
            row_letter = __shfl_up_sync(FULL, row_letter, 1);
            const int next_letter = __shfl_sync(FULL, own_letter, step % 32);
            const int next_h = __shfl_sync(FULL, own_edge.x, step % 32);
            const int next_e = __shfl_sync(FULL, own_edge.y, step % 32);
            if (lane == 0) {
                row_letter = next_letter;
                left = next_h;
                e = next_e;
            }
            const int row = step - lane;
            if (row >= 0 && row < n) {
                const int above_left = left;
#pragma unroll
                for (int c = 0; c < CELLS; c++) {
                    e = __viaddmax_s32(left, both, e - extend);
                    f[c] = __viaddmax_s32(h[c], both, f[c] - extend);
                    const int across = diagonal + (row_letter == letter[c] ? match : mismatch);
                    diagonal = h[c];
                    left = __vimax3_s32_relu(across, e, f[c]);
                    h[c] = left;
                    highest = max(highest, left);
                }
                diagonal = above_left;
                out_h = left;
                out_e = e;
                if (more && lane == 31)
                    edge[row] = make_int2(left, e);
            }
        }
        __syncwarp();
    }
    highest = __reduce_max_sync(FULL, highest);
    if (lane == 0)
        best[pair] = highest;
}
