#define CELLS 8
#define STRIP (32 * CELLS)
#define THREADS 128
#define NEVER 1e30f
#define FULL 0xffffffffu

// One warp per pair: eight columns per lane in registers, rows one behind the other from lane to lane.
extern "C" __global__ void __launch_bounds__(THREADS)
    warp_cost(const float *__restrict__ a, const float *__restrict__ b, float *edges, float *__restrict__ costs,
              int pairs, int m, int n)
{
    const int lane = threadIdx.x % 32;
    const int pair = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (pair >= pairs)
        return;
    const float *one = a + static_cast<size_t>(pair) * m, *other = b + static_cast<size_t>(pair) * n;
    float *edge = edges + static_cast<size_t>(pair) * n;
    for (int strip = 0; strip < m; strip += STRIP) {
        const int first = strip + lane * CELLS;
        const bool more = strip + STRIP < m;
        float value[CELLS], up[CELLS];
#pragma unroll
        for (int c = 0; c < CELLS; c++) {
            value[c] = first + c < m ? one[first + c] : 0.0f;
            up[c] = NEVER;
        }
        float diagonal = first == 0 ? 0.0f : NEVER, row_value = 0.0f, own_value = 0.0f, own_edge = NEVER, out = NEVER;
        for (int step = 0; step < n + 31; step++) {
            if (step % 32 == 0) {
                const int row = step + lane;
                own_value = row < n ? other[row] : 0.0f;
                own_edge = strip > 0 && row < n ? edge[row] : NEVER;
                __syncwarp();
            }
            float left = __shfl_up_sync(FULL, out, 1);
            row_value = __shfl_up_sync(FULL, row_value, 1);
            const float next_value = __shfl_sync(FULL, own_value, step % 32);
            const float next_edge = __shfl_sync(FULL, own_edge, step % 32);
            if (lane == 0) {
                row_value = next_value;
                left = next_edge;
            }
            const int row = step - lane;
            if (row >= 0 && row < n) {
                const float above_left = left;
#pragma unroll
                for (int c = 0; c < CELLS; c++) {
                    const float best = fminf(fminf(diagonal, left), up[c]);
                    diagonal = up[c];
                    left = fabsf(value[c] - row_value) + best;
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
                costs[pair] = up[c];
    }
}
