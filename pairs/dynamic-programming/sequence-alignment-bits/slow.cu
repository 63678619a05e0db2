#define CELLS 4
#define STRIP (32 * CELLS)
#define FULL 0xffffffffu

__device__ __forceinline__ void await(const volatile int *progress, int wanted, int lane)
{
    if (lane == 0)
        while (*progress < wanted) {
        }
    __syncwarp();
    __threadfence();
}

extern "C" __global__ void __launch_bounds__(32)
    strips(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, int *edges, int *progress,
           int *ticket, int *__restrict__ scores, int n, int m, int match, int mismatch, int gap)
{
    const int lane = threadIdx.x;
    int strip = lane == 0 ? atomicAdd(ticket, 1) : 0;
    strip = __shfl_sync(FULL, strip, 0);
    const int first = strip * STRIP + lane * CELLS;
    const int *from = edges + static_cast<size_t>(strip) * n;
    int *to = edges + static_cast<size_t>(strip + 1) * n;

    int letter[CELLS], up[CELLS];
#pragma unroll
    for (int c = 0; c < CELLS; c++) {
        letter[c] = first + c < m ? b[first + c] : -1;
        up[c] = -gap * (first + c + 1);
    }
    int diagonal = -gap * first;
    int row_letter = 0, own_letter = 0, own_edge = 0;
    for (int step = 0; step < n + 31; step++) {
        const int phase = step % 32;
        if (phase == 0 && step < n) {
            const int row = step + lane;
            if (strip > 0)
                await(progress + strip - 1, min(step + 32, n), lane);
            own_letter = row < n ? a[row] : 0;
            own_edge = row < n ? (strip > 0 ? __ldcg(from + row) : -gap * (row + 1)) : 0;
        }
        int left = __shfl_up_sync(FULL, up[CELLS - 1], 1);
        row_letter = __shfl_up_sync(FULL, row_letter, 1);
        const int edge = __shfl_sync(FULL, own_edge, phase);
        const int next_letter = __shfl_sync(FULL, own_letter, phase);
        if (lane == 0) {
            left = edge;
            row_letter = next_letter;
        }
        const int row = step - lane;
        if (row >= 0 && row < n) {
            const int above_left = left;
#pragma unroll
            for (int c = 0; c < CELLS; c++) {
                const int across = diagonal + (row_letter == letter[c] ? match : mismatch);
                diagonal = up[c];
                left = __viaddmax_s32(left, -gap, __viaddmax_s32(up[c], -gap, across));
                up[c] = left;
            }
            diagonal = above_left;
            if (lane == 31)
                to[row] = left;
        }
        if (lane == 31 && (phase == 31 || step == n + 30) && row >= 0) {
            __threadfence();
            *const_cast<volatile int *>(progress + strip) = row + 1;
        }
    }
#pragma unroll
    for (int c = 0; c < CELLS; c++)
        if (first + c < m)
            scores[first + c + 1] = up[c];
    if (strip == 0 && lane == 0)
        scores[0] = -gap * n;
}
