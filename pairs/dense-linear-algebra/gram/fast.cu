// Tensor cores in place of shared memory: a lane's four neighbouring columns of two rows are its share of both factors
// of a 16x8x8 product, so rows go from memory straight to `mma`. Split into two tf32 parts, they keep single precision.
#include <cooperative_groups.h>

#define WIDTH 32
#define THREADS 512
#define WARPS (THREADS / 32)
#define GROUPS 4
#define ROWS (8 * GROUPS)
#define TILES 6
#define SLOTS (TILES * 4 * 32)
#define PARTS 128
#define COLUMNS 8
#define SLICES (THREADS / COLUMNS)
#define ALL 0xffffffffu

struct Rows {
    float4 upper[GROUPS], lower[GROUPS];
};

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Eight rows of 32 columns a group: lane 4 * g + t has columns 4 * g to 4 * g + 3 of rows t and t + 4.
__device__ __forceinline__ Rows load_rows(const float4 *__restrict__ a, long long first, int n)
{
    const int lane = threadIdx.x % 32;
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    Rows rows;
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
        const long long row = first + 8 * i + lane % 4;
        rows.upper[i] = row < n ? __ldcs(a + row * (WIDTH / 4) + lane / 4) : none;
        rows.lower[i] = row + 4 < n ? __ldcs(a + (row + 4) * (WIDTH / 4) + lane / 4) : none;
    }
    return rows;
}

// Column classes modulo four: class c is the c-th of a lane's columns. Tiles of classes {0, 1} with 0 to 3, and of
// {2, 3} with 2 and 3; the rest of the matrix is their mirror image.
__device__ __forceinline__ void add_rows(float (&sum)[TILES][4], const float4 &upper, const float4 &lower)
{
    const float value[2][4] = {{upper.x, upper.y, upper.z, upper.w}, {lower.x, lower.y, lower.z, lower.w}};
    unsigned high[2][4], low[2][4];
#pragma unroll
    for (int k = 0; k < 2; k++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
            high[k][c] = __float_as_uint(value[k][c]) & 0xffffe000u;
            low[k][c] = __float_as_uint(value[k][c] - __uint_as_float(high[k][c]));
        }
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const unsigned a_high[4] = {high[0][2 * m], high[0][2 * m + 1], high[1][2 * m], high[1][2 * m + 1]};
        const unsigned a_low[4] = {low[0][2 * m], low[0][2 * m + 1], low[1][2 * m], low[1][2 * m + 1]};
#pragma unroll
        for (int c = 2 * m; c < 4; c++)
            multiply(sum[2 * m + c], a_high, low[0][c], low[1][c]);
#pragma unroll
        for (int c = 2 * m; c < 4; c++)
            multiply(sum[2 * m + c], a_low, high[0][c], high[1][c]);
#pragma unroll
        for (int c = 2 * m; c < 4; c++)
            multiply(sum[2 * m + c], a_high, high[0][c], high[1][c]);
    }
}

// The blocks, all of them resident, meet once; then each sums some registers of one tile over the blocks, which go to
// their place and its mirror image.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gram(const float4 *__restrict__ a, float *partial, float *__restrict__ g, int n)
{
    __shared__ float room[WARPS][SLOTS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const long long stride = static_cast<long long>(gridDim.x) * WARPS * ROWS;
    float sum[TILES][4] = {};
    long long first = static_cast<long long>(blockIdx.x * WARPS + warp) * ROWS;
    Rows next = load_rows(a, first, n);
    for (; first < n; first += stride) {
        const Rows rows = next;
        next = load_rows(a, first + stride, n);
#pragma unroll
        for (int i = 0; i < GROUPS; i++)
            add_rows(sum, rows.upper[i], rows.lower[i]);
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            room[warp][(tile * 4 + e) * 32 + lane] = sum[tile][e];
    __syncthreads();
    for (int slot = threadIdx.x; slot < SLOTS; slot += THREADS) {
        float whole = room[0][slot];
#pragma unroll
        for (int other = 1; other < WARPS; other++)
            whole += room[other][slot];
        partial[blockIdx.x * SLOTS + slot] = whole;
    }
    cooperative_groups::this_grid().sync();
    const int column = threadIdx.x % COLUMNS, slice = threadIdx.x / COLUMNS, parts = gridDim.x;
    for (int first_slot = blockIdx.x * COLUMNS; first_slot < SLOTS; first_slot += parts * COLUMNS) {
        const int slot = first_slot + column;
        float value[(PARTS + SLICES - 1) / SLICES], whole = 0.0f;
#pragma unroll
        for (int i = 0; i < (PARTS + SLICES - 1) / SLICES; i++) {
            const int part = slice + i * SLICES;
            value[i] = part < parts ? __ldcg(partial + part * SLOTS + slot) : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < (PARTS + SLICES - 1) / SLICES; i++)
            whole += value[i];
#pragma unroll
        for (int offset = COLUMNS; offset < 32; offset *= 2)
            whole += __shfl_xor_sync(ALL, whole, offset);
        if (lane < COLUMNS)
            room[warp][column] = whole;
        __syncthreads();
        if (threadIdx.x < COLUMNS) {
            whole = room[0][column];
#pragma unroll
            for (int other = 1; other < WARPS; other++)
                whole += room[other][column];
            const int tile = slot / 128, e = slot / 32 % 4, owner = slot % 32;
            const int half = tile / 4, column_class = half ? tile - 2 : tile;
            const int i = 4 * (owner / 4) + 2 * half + e / 2, j = 4 * (2 * (owner % 4) + e % 2) + column_class;
            g[i * WIDTH + j] = whole;
            if (half == 0 && column_class >= 2)
                g[j * WIDTH + i] = whole;
        }
        __syncthreads();
    }
}
