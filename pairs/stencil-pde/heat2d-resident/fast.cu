// All steps in one cooperative launch. A block keeps a tile in registers with a rim of HALO cells around it, which it
// steps along, so that tiles exchange cells and meet only every HALO steps. A warp has ROWS whole rows, a lane four
// columns: neighbours in a row come by shuffle, rows of other warps through shared memory.
#include <cooperative_groups.h>

#define HALO 12
#define ROWS 7
#define WARPS 16
#define HIGH (ROWS * WARPS - 2 * HALO)
#define WIDE (128 - 2 * HALO)
#define FULL 0xffffffffu

typedef float4 Rims[2][2][WARPS + 2][32];

// Rows at the border of the grid keep their values; `lowest` and `highest` are the first and last that change.
template <bool BORDER>
__device__ __forceinline__ void advance(float4 (&u)[ROWS], Rims &rims, int count, const float4 &rate, const float4 &keep,
                                        int row, int lowest, int highest)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll 1
    for (int step = 0; step < count; step++) {
        float4(*rim)[WARPS + 2][32] = rims[step % 2];
        rim[0][warp + 1][lane] = u[0];
        rim[1][warp + 1][lane] = u[ROWS - 1];
        __syncthreads();
        float4 above = rim[1][warp][lane];
        const float4 last = rim[0][warp + 2][lane];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float4 own = u[r], below = r + 1 < ROWS ? u[r + 1 < ROWS ? r + 1 : r] : last;
            const float left = __shfl_up_sync(FULL, own.w, 1), right = __shfl_down_sync(FULL, own.x, 1);
            float4 next;
            next.x = fmaf(rate.x, (above.x + below.x) + (left + own.y), keep.x * own.x);
            next.y = fmaf(rate.y, (above.y + below.y) + (own.x + own.z), keep.y * own.y);
            next.z = fmaf(rate.z, (above.z + below.z) + (own.y + own.w), keep.z * own.z);
            next.w = fmaf(rate.w, (above.w + below.w) + (own.z + right), keep.w * own.w);
            if (!BORDER || (row + r >= lowest && row + r <= highest))
                u[r] = next;
            above = own;
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
    heat_steps(const float *__restrict__ in, float *__restrict__ out, float *board, int height, int width, int steps,
               float k)
{
    __shared__ Rims rims;
    const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pitch = (width + 3) / 4 * 4;
    const int inside = warp * ROWS, row = blockIdx.y * HIGH - HALO + inside, x = blockIdx.x * WIDE - HALO + 4 * lane;
    if (threadIdx.x < 2 * 32) {
        const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        rims[threadIdx.x / 32][1][0][lane] = none;
        rims[threadIdx.x / 32][0][WARPS + 1][lane] = none;
    }
    float4 u[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const bool there = row + r >= 0 && row + r < height;
        const float *from = in + static_cast<size_t>(row + r) * width + x;
        if (width % 4 == 0) {
            u[r] = there && x >= 0 && x < width ? *reinterpret_cast<const float4 *>(from)
                                                : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        } else {
            u[r].x = there && x >= 0 && x < width ? from[0] : 0.0f;
            u[r].y = there && x >= 0 && x + 1 < width ? from[1] : 0.0f;
            u[r].z = there && x >= 0 && x + 2 < width ? from[2] : 0.0f;
            u[r].w = there && x >= 0 && x + 3 < width ? from[3] : 0.0f;
        }
    }
    // Columns at the border and outside keep their values.
    float4 rate, keep;
    rate.x = x > 0 && x < width - 1 ? k : 0.0f;
    rate.y = x + 1 > 0 && x + 1 < width - 1 ? k : 0.0f;
    rate.z = x + 2 > 0 && x + 2 < width - 1 ? k : 0.0f;
    rate.w = x + 3 > 0 && x + 3 < width - 1 ? k : 0.0f;
    keep.x = 1.0f - 4.0f * rate.x;
    keep.y = 1.0f - 4.0f * rate.y;
    keep.z = 1.0f - 4.0f * rate.z;
    keep.w = 1.0f - 4.0f * rate.w;
    const bool border = blockIdx.y == 0 || static_cast<int>(blockIdx.y + 1) * HIGH + HALO >= height;
    const bool middle = lane >= HALO / 4 && lane < 32 - HALO / 4, across = x >= 0 && x < width;
    const bool side = lane < HALO / 2 || lane >= 32 - HALO / 2;
    for (int done = 0;; done += HALO) {
        const int count = min(HALO, steps - done);
        if (border)
            advance<true>(u, rims, count, rate, keep, row, 1, height - 2);
        else
            advance<false>(u, rims, count, rate, keep, row, 1, height - 2);
        if (done + HALO >= steps)
            break;
        // Two boards take turns, so that one meeting an exchange is enough.
        float *shown = board + static_cast<size_t>(done / HALO % 2) * height * pitch;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int i = inside + r;
            const bool own = middle && i >= HALO && i < HALO + HIGH;
            if (own && (side || i < 2 * HALO || i >= HIGH) && across && row + r < height)
                *reinterpret_cast<float4 *>(shown + static_cast<size_t>(row + r) * pitch + x) = u[r];
        }
        grid.sync();
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int i = inside + r;
            const bool own = middle && i >= HALO && i < HALO + HIGH;
            if (!own && across && row + r >= 0 && row + r < height)
                u[r] = __ldcg(reinterpret_cast<const float4 *>(shown + static_cast<size_t>(row + r) * pitch + x));
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int i = inside + r;
        float *to = out + static_cast<size_t>(row + r) * width + x;
        if (middle && i >= HALO && i < HALO + HIGH && across && row + r < height) {
            if (width % 4 == 0) {
                *reinterpret_cast<float4 *>(to) = u[r];
            } else {
                to[0] = u[r].x;
                if (x + 1 < width)
                    to[1] = u[r].y;
                if (x + 2 < width)
                    to[2] = u[r].z;
                if (x + 3 < width)
                    to[3] = u[r].w;
            }
        }
    }
}
