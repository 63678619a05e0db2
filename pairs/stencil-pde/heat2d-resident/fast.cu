// All steps in one cooperative launch: a block keeps eight rows in registers, a column a thread, and shows the
// rest of the grid only its first and last row. Within a row neighbours come by shuffle, across warps through
// shared memory. Two sets of edges take turns, so that one barrier of the grid a step is enough.
#include <cooperative_groups.h>

#define ROWS 8

extern "C" __global__ void __launch_bounds__(1024, 1)
    heat_steps(const float *__restrict__ in, float *__restrict__ out, float *edges, int height, int width, int steps,
               float k)
{
    __shared__ float rims[2][ROWS][34][2];
    const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    const int x = threadIdx.x, lane = x % 32, warp = x / 32;
    const int first = blockIdx.x * ROWS, here = min(ROWS, height - first);
    const bool exists = x < width, inner = x > 0 && x < width - 1;
    float u[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        u[r] = exists && r < here ? in[(first + r) * width + x] : 0.0f;
    for (int step = 0; step < steps; step++) {
        float *shown = edges + (size_t)(step % 2) * gridDim.x * 2 * width;
        float(*rim)[34][2] = rims[step % 2];
        if (exists) {
            shown[(2 * blockIdx.x) * width + x] = u[0];
            shown[(2 * blockIdx.x + 1) * width + x] = u[ROWS - 1];
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (lane == 0)
                rim[r][warp + 1][0] = u[r];
            if (lane == 31)
                rim[r][warp + 1][1] = u[r];
        }
        grid.sync();
        float above = exists && blockIdx.x > 0 ? __ldcg(shown + (2 * blockIdx.x - 1) * width + x) : 0.0f;
        const float below = exists && blockIdx.x + 1 < gridDim.x ? __ldcg(shown + (2 * blockIdx.x + 2) * width + x) : 0.0f;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int row = first + r;
            float left = __shfl_up_sync(0xffffffffu, u[r], 1);
            float right = __shfl_down_sync(0xffffffffu, u[r], 1);
            if (lane == 0 && x > 0)
                left = rim[r][warp][1];
            if (lane == 31 && x < width - 1)
                right = rim[r][warp + 2][0];
            const float centre = u[r];
            const float next = r + 1 < ROWS ? u[r + 1 < ROWS ? r + 1 : r] : below;
            if (inner && row > 0 && row < height - 1)
                u[r] = centre + k * (above + next + left + right - 4.0f * centre);
            above = centre;
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (exists && r < here)
            out[(first + r) * width + x] = u[r];
}
