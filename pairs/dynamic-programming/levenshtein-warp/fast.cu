#define CELLS 8
#define STRIP (32 * CELLS)
#define THREADS 128
#define FULL 0xffffffffu

extern "C" __global__ void __launch_bounds__(THREADS)
    distance(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, int *edges,
             int *__restrict__ distances, int pairs, int m, int n)
{
    const int lane = threadIdx.x % 32;
    const int pair = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (pair >= pairs)
        return;
    const unsigned char *text_a = a + static_cast<size_t>(pair) * m;
    const unsigned char *text_b = b + static_cast<size_t>(pair) * n;
    int *edge = edges + static_cast<size_t>(pair) * n;
    for (int strip = 0; strip < m; strip += STRIP) {
        const int first = strip + lane * CELLS;
        const bool more = strip + STRIP < m;
        int letter[CELLS], up[CELLS];
#pragma unroll
        for (int c = 0; c < CELLS; c++) {
            letter[c] = first + c < m ? text_a[first + c] : 256;
            up[c] = first + c + 1;
        }
        int diagonal = first, row_letter = 0, own_letter = 0, own_edge = 0, out = 0;
        for (int step = 0; step < n + 31; step++) {
            if (step % 32 == 0) {
                const int row = step + lane;
                own_letter = row < n ? text_b[row] : 257;
                own_edge = strip > 0 && row < n ? edge[row] : row + 1;
                __syncwarp();
            }
            int left = __shfl_up_sync(FULL, out, 1);
            row_letter = __shfl_up_sync(FULL, row_letter, 1);
            const int next_letter = __shfl_sync(FULL, own_letter, step % 32);
            const int next_edge = __shfl_sync(FULL, own_edge, step % 32);
            if (lane == 0) {
                row_letter = next_letter;
                left = next_edge;
            }
            const int row = step - lane;
            if (row >= 0 && row < n) {
                const int above_left = left;
#pragma unroll
                for (int c = 0; c < CELLS; c++) {
                    const int change = diagonal + (row_letter != letter[c]);
                    diagonal = up[c];
                    left = __vimin3_s32(change, left + 1, up[c] + 1);
                    up[c] = left;
                }
                diagonal = above_left;
                out = left;
                if (more && lane == 31)
                    edge[row] = left;
            }
        }
        __syncwarp();
#pragma unroll
        for (int c = 0; c < CELLS; c++)
            if (first + c == m - 1)
                distances[pair] = up[c];
    }
}
