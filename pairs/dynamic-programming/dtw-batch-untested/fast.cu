#define CELLS 8
#define STRIP (32 * CELLS)
#define WARPS 4
#define PAD 32
#define NEVER 1e30f
#define FULL 0xffffffffu

// One row of a lane's cells, from the value left of them and the one above that; returns the last.
__device__ __forceinline__ float row_of(float (&up)[CELLS], const float (&value)[CELLS], float own, float left,
                                        float diagonal)
{
#pragma unroll
    for (int c = 0; c < CELLS; c++) {
        const float best = fminf(fminf(diagonal, up[c]), left);
        diagonal = up[c];
        left = fabsf(value[c] - own) + best;
        up[c] = left;
    }
    return left;
}

// One warp per pair: eight columns per lane in registers, rows one behind the other from lane to lane. Steps need no
// tests: before its first row a lane only has NEVER to hand on, and the last strip ends with the step of the last cell.
// Values of rows wait in shared memory, with room around for lanes that are early or late.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    warp_cost(const float *__restrict__ a, const float *__restrict__ b, float *edges, float *__restrict__ costs,
              int pairs, int m, int n)
{
    extern __shared__ float rows[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int pair = blockIdx.x * WARPS + warp;
    if (pair >= pairs)
        return;
    const float *one = a + static_cast<size_t>(pair) * m, *other = b + static_cast<size_t>(pair) * n;
    float *edge = edges + static_cast<size_t>(pair) * n, *line = rows + warp * (n + 2 * PAD);
    for (int i = lane; i < n + 2 * PAD; i += 32)
        line[i] = i >= PAD && i < n + PAD ? __ldg(other + i - PAD) : 0.0f;
    __syncwarp();
    const float *own = line + PAD - lane;
    for (int strip = 0; strip < m; strip += STRIP) {
        const int first = strip + lane * CELLS;
        const bool more = strip + STRIP < m;
        float value[CELLS], up[CELLS];
#pragma unroll
        for (int c = 0; c < CELLS; c++) {
            value[c] = first + c < m ? one[first + c] : 0.0f;
            up[c] = NEVER;
        }
        float diagonal = first == 0 ? 0.0f : NEVER, out = NEVER;
        const int steps = n + (more ? 31 : (m - 1 - strip) / CELLS);
        if (strip == 0 && !more) {
#pragma unroll 4
            for (int step = 0; step < steps; step++) {
                float left = __shfl_up_sync(FULL, out, 1);
                left = lane == 0 ? NEVER : left;
                out = row_of(up, value, own[step], left, diagonal);
                diagonal = left;
            }
        } else {
            float own_edge = NEVER;
            for (int step = 0; step < steps; step++) {
                if (step % 32 == 0) {
                    own_edge = strip > 0 && step + lane < n ? edge[step + lane] : NEVER;
                    __syncwarp();
                }
                float left = __shfl_up_sync(FULL, out, 1);
                const float next_edge = __shfl_sync(FULL, own_edge, step % 32);
                left = lane == 0 ? next_edge : left;
                out = row_of(up, value, own[step], left, diagonal);
                diagonal = left;
                if (more && lane == 31 && step >= 31)
                    edge[step - 31] = out;
            }
        }
        __syncwarp();
#pragma unroll
        for (int c = 0; c < CELLS; c++)
            if (first + c == m - 1)
                costs[pair] = up[c];
    }
}
