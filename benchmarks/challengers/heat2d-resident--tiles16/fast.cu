// All steps in one cooperative launch, on tiles of 128 x 128 cells that overlap by 32: a tile makes sixteen steps on its
// own, wrong only within sixteen cells of its rim, then takes its rim anew from its neighbours: a grid barrier each
// sixteen steps. A lane keeps 8 x 8 cells in registers, a warp 32 x 64; shared memory has only the rims of warps.
#include <cooperative_groups.h>

#define SIDE 8
#define WARPS_Y 4
#define WARPS_X 2
#define WARPS (WARPS_Y * WARPS_X)
#define THREADS (32 * WARPS)
#define LANES 16
#define HALO 2
#define INNER ((LANES - 2 * HALO) * SIDE)
#define STEPS (HALO * SIDE)
#define ALL 0xffffffffu

struct Rims {
    float4 top[WARPS][16], bottom[WARPS][16];
    float left[WARPS][32], right[WARPS][32];
};

__device__ __forceinline__ void take(float (&u)[SIDE][SIDE], const float *__restrict__ from, int y, int x, int height,
                                     int width)
{
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
        const bool inside = y + r >= 0 && y + r < height;
        const float *row = from + static_cast<size_t>(inside ? y + r : 0) * width;
        if (width % SIDE == 0) {
            float4 a = make_float4(0.0f, 0.0f, 0.0f, 0.0f), b = a;
            if (inside && x >= 0 && x < width) {
                a = __ldcg(reinterpret_cast<const float4 *>(row + x));
                b = __ldcg(reinterpret_cast<const float4 *>(row + x) + 1);
            }
            u[r][0] = a.x, u[r][1] = a.y, u[r][2] = a.z, u[r][3] = a.w;
            u[r][4] = b.x, u[r][5] = b.y, u[r][6] = b.z, u[r][7] = b.w;
        } else {
#pragma unroll
            for (int j = 0; j < SIDE; j++)
                u[r][j] = inside && x + j >= 0 && x + j < width ? __ldcg(row + x + j) : 0.0f;
        }
    }
}

__device__ __forceinline__ void give(const float (&u)[SIDE][SIDE], float *__restrict__ to, int y, int x, int height,
                                     int width)
{
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
        if (y + r >= height)
            break;
        float *row = to + static_cast<size_t>(y + r) * width;
        if (width % SIDE == 0) {
            if (x < width) {
                __stcg(reinterpret_cast<float4 *>(row + x), make_float4(u[r][0], u[r][1], u[r][2], u[r][3]));
                __stcg(reinterpret_cast<float4 *>(row + x) + 1, make_float4(u[r][4], u[r][5], u[r][6], u[r][7]));
            }
        } else {
#pragma unroll
            for (int j = 0; j < SIDE; j++)
                if (x + j < width)
                    __stcg(row + x + j, u[r][j]);
        }
    }
}

__device__ __forceinline__ void unpack(float (&row)[SIDE], const float4 *from)
{
    const float4 a = from[0], b = from[1];
    row[0] = a.x, row[1] = a.y, row[2] = a.z, row[3] = a.w;
    row[4] = b.x, row[5] = b.y, row[6] = b.z, row[7] = b.w;
}

__device__ __forceinline__ void pack(float4 *to, const float (&row)[SIDE])
{
    to[0] = make_float4(row[0], row[1], row[2], row[3]);
    to[1] = make_float4(row[4], row[5], row[6], row[7]);
}

__device__ __forceinline__ void show(const float (&u)[SIDE][SIDE], Rims &shown)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, ly = lane / 8, lx = lane % 8;
    if (ly == 0)
        pack(shown.top[warp] + 2 * lx, u[0]);
    if (ly == 3)
        pack(shown.bottom[warp] + 2 * lx, u[SIDE - 1]);
    if (lx == 0)
#pragma unroll
        for (int r = 0; r < SIDE; r++)
            shown.left[warp][ly * SIDE + r] = u[r][0];
    if (lx == 7)
#pragma unroll
        for (int r = 0; r < SIDE; r++)
            shown.right[warp][ly * SIDE + r] = u[r][SIDE - 1];
}

// One step of a tile. `by`: k, or zero for columns on the plate's rim or past it. `rims`: the lane's rows on that rim, as
// bits; WHOLE: the warp has none.
template <bool WHOLE>
__device__ __forceinline__ void step(float (&u)[SIDE][SIDE], const float (&by)[SIDE], unsigned rims, const Rims &shown)
{
    const int warp = threadIdx.x / 32, warp_y = warp / WARPS_X, warp_x = warp % WARPS_X;
    const int lane = threadIdx.x % 32, ly = lane / 8, lx = lane % 8;
    float above[SIDE], below[SIDE];
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
        above[j] = __shfl_up_sync(ALL, u[SIDE - 1][j], 8);
        below[j] = __shfl_down_sync(ALL, u[0][j], 8);
    }
    if (ly == 0 && warp_y > 0)
        unpack(above, shown.bottom[warp - WARPS_X] + 2 * lx);
    if (ly == 3 && warp_y + 1 < WARPS_Y)
        unpack(below, shown.top[warp + WARPS_X] + 2 * lx);
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
        float before = __shfl_up_sync(ALL, u[r][SIDE - 1], 1), right = __shfl_down_sync(ALL, u[r][0], 1);
        if (lx == 0 && warp_x > 0)
            before = shown.right[warp - 1][ly * SIDE + r];
        if (lx == 7 && warp_x + 1 < WARPS_X)
            right = shown.left[warp + 1][ly * SIDE + r];
        const bool free = WHOLE || (rims >> r & 1) == 0;
#pragma unroll
        for (int j = 0; j < SIDE; j++) {
            const float here = u[r][j], next = r + 1 < SIDE ? u[(r + 1) % SIDE][j] : below[j];
            const float sum = (before + (j + 1 < SIDE ? u[r][(j + 1) % SIDE] : right)) + (above[j] + next);
            const float changed = fmaf(by[j], fmaf(-4.0f, here, sum), here);
            u[r][j] = free ? changed : here;
            before = here;
            above[j] = here;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    heat_steps(const float *__restrict__ in, float *__restrict__ out, float *edges, int height, int width, int steps,
               float k)
{
    __shared__ Rims shown[2];
    const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int tile_y = warp / WARPS_X * 4 + lane / 8, tile_x = warp % WARPS_X * 8 + lane % 8;
    const int y = blockIdx.y * INNER + (tile_y - HALO) * SIDE, x = blockIdx.x * INNER + (tile_x - HALO) * SIDE;
    // How far inside the tile the lane's cells are: halo, what others need, or neither.
    const int depth = min(min(tile_y, LANES - 1 - tile_y), min(tile_x, LANES - 1 - tile_x));
    float u[SIDE][SIDE], by[SIDE];
    unsigned rims = 0;
#pragma unroll
    for (int j = 0; j < SIDE; j++)
        by[j] = x + j > 0 && x + j < width - 1 ? k : 0.0f;
#pragma unroll
    for (int r = 0; r < SIDE; r++)
        rims |= y + r == 0 || y + r == height - 1 ? 1u << r : 0u;
    const bool whole = __all_sync(ALL, rims == 0);
    take(u, in, y, x, height, width);
    int turn = 0;
    for (int done = 0; done < steps; done += STEPS) {
        if (done > 0) {
            float *plate = edges + static_cast<size_t>(done / STEPS % 2) * height * width;
            if (depth >= HALO && depth < 2 * HALO)
                give(u, plate, y, x, height, width);
            grid.sync();
            if (depth < HALO)
                take(u, plate, y, x, height, width);
        }
        const int last = min(STEPS, steps - done);
#pragma unroll 1
        for (int i = 0; i < last; i++, turn ^= 1) {
            show(u, shown[turn]);
            __syncthreads();
            if (whole)
                step<true>(u, by, rims, shown[turn]);
            else
                step<false>(u, by, rims, shown[turn]);
        }
    }
    if (depth >= HALO)
        give(u, out, y, x, height, width);
}
