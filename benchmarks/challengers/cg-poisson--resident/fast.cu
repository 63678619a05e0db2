#include <cooperative_groups.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define COLS 256
#define WIDEST (4 * COLS)
#define ROWS 4
#define GROUPS 2
#define SHARE (ROWS * GROUPS)
#define ALL 0xffffffffu

namespace cg = cooperative_groups;

__device__ __forceinline__ float2 warp_sums(float2 value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, offset);
        value.y += __shfl_xor_sync(ALL, value.y, offset);
    }
    return value;
}

// Both sums over the grid: every warp adds up the sums of all blocks itself.
__device__ __forceinline__ float2 grid_sums(cg::grid_group &grid, float2 value, float2 *sums, float2 *parts)
{
    value = warp_sums(value);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = parts[0];
        for (int warp = 1; warp < WARPS; warp++)
            value = make_float2(value.x + parts[warp].x, value.y + parts[warp].y);
        sums[blockIdx.x] = value;
    }
    grid.sync();
    value = make_float2(0.0f, 0.0f);
#pragma unroll 4
    for (int block = threadIdx.x % 32; block < static_cast<int>(gridDim.x); block += 32) {
        const float2 other = __ldcg(sums + block);
        value = make_float2(value.x + other.x, value.y + other.y);
    }
    return warp_sums(value);
}

// Four neighbouring cells of a row; zero past the plate.
__device__ __forceinline__ void take(float (&to)[4], const float *__restrict__ from, int y, int x, int height, int width)
{
#pragma unroll
    for (int j = 0; j < 4; j++)
        to[j] = y >= 0 && y < height && x + j < width ? from[static_cast<size_t>(y) * width + x + j] : 0.0f;
}

struct Edges {
    float4 upper[COLS], lower[COLS];
};

// Eight rows a block, a thread 4 x 4 cells, with all vectors in registers for all iterations. The form of Chronopoulos and
// Gear: both inner products of an iteration are taken together, so that it has one barrier of the grid. A block shows the
// others only its outer rows of w = A r, from which they keep up its outer rows of r themselves.
__device__ __forceinline__ void hold(cg::grid_group &grid, const float *__restrict__ b, float *__restrict__ x,
                                     Edges *edges, float2 *sums, int height, int width, int iterations)
{
    __shared__ float2 parts[WARPS];
    __shared__ float4 inner[GROUPS][COLS];
    __shared__ float left[SHARE][COLS / 32 + 1], right[SHARE][COLS / 32 + 1];
    const int column = threadIdx.x % COLS, group = threadIdx.x / COLS, lane = threadIdx.x % 32, strip = column / 32;
    const int x0 = 4 * column, first = blockIdx.x * SHARE, y0 = first + group * ROWS;
    const int blocks = gridDim.x, other = static_cast<int>(blockIdx.x) + (group == 0 ? -1 : 1);
    const bool has_other = other >= 0 && other < blocks;
    float r[ROWS][4], p[ROWS][4] = {}, s[ROWS][4] = {}, w[ROWS][4], sum_x[ROWS][4] = {}, r_other[4], s_other[4] = {};
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        take(r[i], b, y0 + i, x0, height, width);
    take(r_other, b, group == 0 ? first - 1 : first + SHARE, x0, height, width);
    float square = 0.0f, alpha = 0.0f;
#pragma unroll 1
    for (int t = 0; t < iterations; t++) {
        // What the other group and the neighbouring warps need.
        inner[group][column] = group == 0 ? make_float4(r[ROWS - 1][0], r[ROWS - 1][1], r[ROWS - 1][2], r[ROWS - 1][3])
                                          : make_float4(r[0][0], r[0][1], r[0][2], r[0][3]);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            if (lane == 0)
                left[group * ROWS + i][strip] = r[i][0];
            if (lane == 31)
                right[group * ROWS + i][strip] = r[i][3];
        }
        __syncthreads();
        const float4 shown = inner[1 - group][column];
        const float near_row[4] = {shown.x, shown.y, shown.z, shown.w};
        float2 own = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            float before = __shfl_up_sync(ALL, r[i][3], 1), after = __shfl_down_sync(ALL, r[i][0], 1);
            if (lane == 0)
                before = strip > 0 ? right[group * ROWS + i][strip - 1] : 0.0f;
            if (lane == 31)
                after = strip + 1 < COLS / 32 ? left[group * ROWS + i][strip + 1] : 0.0f;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float above = i > 0 ? r[(i + ROWS - 1) % ROWS][j] : group == 0 ? r_other[j] : near_row[j];
                const float below = i + 1 < ROWS ? r[(i + 1) % ROWS][j] : group == 0 ? near_row[j] : r_other[j];
                const float beside = (j > 0 ? r[i][(j + 3) % 4] : before) + (j < 3 ? r[i][(j + 1) % 4] : after);
                const bool exists = y0 + i < height && x0 + j < width;
                w[i][j] = exists ? fmaf(4.0f, r[i][j], -((above + below) + beside)) : 0.0f;
                own.x = fmaf(r[i][j], r[i][j], own.x);
                own.y = fmaf(r[i][j], w[i][j], own.y);
            }
        }
        Edges *turn = edges + t % 2 * blocks;
        if (group == 0)
            __stcg(turn[blockIdx.x].upper + column, make_float4(w[0][0], w[0][1], w[0][2], w[0][3]));
        else
            __stcg(turn[blockIdx.x].lower + column,
                   make_float4(w[ROWS - 1][0], w[ROWS - 1][1], w[ROWS - 1][2], w[ROWS - 1][3]));
        const float2 whole = grid_sums(grid, own, sums + t % 2 * blocks, parts);
        const float beta = t > 0 ? whole.x / square : 0.0f;
        alpha = t > 0 ? whole.x / (whole.y - beta * whole.x / alpha) : whole.x / whole.y;
        square = whole.x;
        float4 theirs = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (has_other)
            theirs = __ldcg((group == 0 ? turn[other].lower : turn[other].upper) + column);
        const float w_other[4] = {theirs.x, theirs.y, theirs.z, theirs.w};
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                p[i][j] = fmaf(beta, p[i][j], r[i][j]);
                s[i][j] = fmaf(beta, s[i][j], w[i][j]);
                sum_x[i][j] = fmaf(alpha, p[i][j], sum_x[i][j]);
                r[i][j] = fmaf(-alpha, s[i][j], r[i][j]);
            }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            s_other[j] = fmaf(beta, s_other[j], w_other[j]);
            r_other[j] = fmaf(-alpha, s_other[j], r_other[j]);
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (y0 + i < height && x0 + j < width)
                x[static_cast<size_t>(y0 + i) * width + x0 + j] = sum_x[i][j];
}

// Plates that do not fit: x, r and q of a cell belong to one thread, and only p goes from thread to thread.
__device__ __forceinline__ void sweep(cg::grid_group &grid, const float *__restrict__ b, float *__restrict__ x,
                                      float *__restrict__ r, float *p, float *__restrict__ q, float2 *sums, int height,
                                      int width, int iterations)
{
    __shared__ float2 parts[WARPS];
    const int cells = height * width, first = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS;
    float own = 0.0f;
    for (int i = first; i < cells; i += stride) {
        const float value = b[i];
        x[i] = 0.0f;
        r[i] = value;
        p[i] = value;
        own += value * value;
    }
    float square = grid_sums(grid, make_float2(own, 0.0f), sums + gridDim.x, parts).x;
    for (int t = 0; t < iterations; t++) {
        own = 0.0f;
        for (int i = first; i < cells; i += stride) {
            const int y = i / width, column = i - y * width;
            const float centre = __ldcg(p + i);
            float sum = 4.0f * centre;
            sum -= column > 0 ? __ldcg(p + i - 1) : 0.0f;
            sum -= column + 1 < width ? __ldcg(p + i + 1) : 0.0f;
            sum -= y > 0 ? __ldcg(p + i - width) : 0.0f;
            sum -= y + 1 < height ? __ldcg(p + i + width) : 0.0f;
            q[i] = sum;
            own += centre * sum;
        }
        const float alpha = square / grid_sums(grid, make_float2(own, 0.0f), sums, parts).x;
        own = 0.0f;
        for (int i = first; i < cells; i += stride) {
            x[i] += alpha * p[i];
            const float rest = r[i] - alpha * q[i];
            r[i] = rest;
            own += rest * rest;
        }
        const float next = grid_sums(grid, make_float2(own, 0.0f), sums + gridDim.x, parts).x;
        const float beta = next / square;
        square = next;
        for (int i = first; i < cells; i += stride)
            p[i] = r[i] + beta * p[i];
        grid.sync();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    solve(const float *__restrict__ b, float *__restrict__ x, float *__restrict__ r, float *p, float *__restrict__ q,
          Edges *edges, float2 *sums, int height, int width, int iterations)
{
    cg::grid_group grid = cg::this_grid();
    if (width <= WIDEST && height <= static_cast<int>(gridDim.x) * SHARE)
        hold(grid, b, x, edges, sums, height, width, iterations);
    else
        sweep(grid, b, x, r, p, q, sums, height, width, iterations);
}
