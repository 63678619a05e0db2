#include <cuda_bf16.h>

#define THREADS 256
#define ROWS 128
#define COLS 128
#define DEPTH 64
#define ROW_BYTES (DEPTH * 2)
#define STAGES 3
#define LEFT_BYTES (ROWS * ROW_BYTES)
#define STAGE_BYTES (LEFT_BYTES + COLS * ROW_BYTES)
#define DOWN 4
#define ACROSS 4
#define RANK 16
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Where 16 bytes of a row lie: rows of 128 bytes, chunks exchanged within eight rows.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * ROW_BYTES + ((chunk ^ row) & 7) * 16;
}

__device__ __forceinline__ void copy_chunk(unsigned char *to, const bf16 *__restrict__ from, int row, int rows,
                                           int depth, int k)
{
    const bool inside = row < rows && depth < k;
    const bf16 *source = inside ? from + static_cast<size_t>(row) * k + depth : from;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(source),
                 "r"(inside ? 16 : 0) : "memory");
}

__device__ __forceinline__ void copy_tile(unsigned char *to, const bf16 *__restrict__ from, int row, int rows,
                                          int depth, int k)
{
#pragma unroll
    for (int part = 0; part < ROWS * DEPTH / 8 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS, i = item / (DEPTH / 8), chunk = item % (DEPTH / 8);
        copy_chunk(to + place(i, chunk), from, row + i, rows, depth + chunk * 8, k);
    }
}

// Four matrices of eight rows by 16 bytes; each lane names one row.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const unsigned char *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from)) : "memory");
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply_stage(float (&sum)[DOWN][ACROSS][4], const unsigned char *left,
                                               const unsigned char *right, int y, int x)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < DEPTH / 8; i += 2) {
        unsigned p[DOWN][4], q[ACROSS / 2][4];
#pragma unroll
        for (int s = 0; s < ACROSS / 2; s++)
            load_matrices(q[s], right + place(x + 16 * s + lane / 16 * 8 + lane % 8, i + lane / 8 % 2));
#pragma unroll
        for (int r = 0; r < DOWN; r++)
            load_matrices(p[r], left + place(y + 16 * r + lane % 16, i + lane / 16));
#pragma unroll
        for (int r = 0; r < DOWN; r++)
#pragma unroll
            for (int s = 0; s < ACROSS; s++)
                multiply(sum[r][s], p[r], q[s / 2][s % 2 * 2], q[s / 2][s % 2 * 2 + 1]);
    }
}

// The block's tile of x * w^T, with two stages in flight behind the one in use.
__device__ __forceinline__ void product(float (&sum)[DOWN][ACROSS][4], unsigned char *stages,
                                        const bf16 *__restrict__ x, const bf16 *__restrict__ w, int row, int col,
                                        int m, int n, int k, int y, int across)
{
    const int tiles = (k + DEPTH - 1) / DEPTH;
    const auto start = [&](int tile) {
        if (tile < tiles) {
            unsigned char *stage = stages + tile % STAGES * STAGE_BYTES;
            copy_tile(stage, x, row, m, tile * DEPTH, k);
            copy_tile(stage + LEFT_BYTES, w, col, n, tile * DEPTH, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int tile = 0; tile < STAGES - 1; tile++)
        start(tile);
    for (int tile = 0; tile < tiles; tile++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        start(tile + STAGES - 1);
        const unsigned char *stage = stages + tile % STAGES * STAGE_BYTES;
        multiply_stage(sum, stage, stage + LEFT_BYTES, y, across);
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

__device__ __forceinline__ void put(bf16 *__restrict__ to, int row, int col, int m, int n, float left, float right)
{
    if (row >= m || col >= n)
        return;
    to += static_cast<size_t>(row) * n + col;
    if (n % 2 == 0) {
        *reinterpret_cast<__nv_bfloat162 *>(to) = __floats2bfloat162_rn(left, right);
        return;
    }
    to[0] = __float2bfloat16(left);
    if (col + 1 < n)
        to[1] = __float2bfloat16(right);
}

// x * a^T for sixteen rows: eight warps share the depth. A lane's sixteen bytes of a row serve two products; that the
// depth is taken in another order is the same for both factors.
extern "C" __global__ void __launch_bounds__(THREADS)
    low_rank(const bf16 *__restrict__ x, const bf16 *__restrict__ a, bf16 *__restrict__ low, int m, int k, float scale)
{
    __shared__ float parts[8][16][RANK];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 16 + lane / 4;
    const uint4 none = make_uint4(0, 0, 0, 0);
    float sum[2][4] = {};
    for (int depth = warp * 32; depth < k; depth += 8 * 32) {
        const int at = depth + lane % 4 * 8;
        uint4 p[2], q[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row + 8 * half;
            p[half] = at < k && i < m ? *reinterpret_cast<const uint4 *>(x + static_cast<size_t>(i) * k + at) : none;
            q[half] = at < k ? *reinterpret_cast<const uint4 *>(a + static_cast<size_t>(lane / 4 + 8 * half) * k + at)
                             : none;
        }
        const unsigned first[4] = {p[0].x, p[1].x, p[0].y, p[1].y}, second[4] = {p[0].z, p[1].z, p[0].w, p[1].w};
#pragma unroll
        for (int s = 0; s < 2; s++) {
            multiply(sum[s], first, q[s].x, q[s].y);
            multiply(sum[s], second, q[s].z, q[s].w);
        }
    }
#pragma unroll
    for (int s = 0; s < 2; s++)
#pragma unroll
        for (int c = 0; c < 4; c++)
            parts[warp][lane / 4 + c / 2 * 8][8 * s + lane % 4 * 2 + c % 2] = sum[s][c];
    __syncthreads();
    const int i = threadIdx.x / RANK, j = threadIdx.x % RANK;
    float whole = 0.0f;
#pragma unroll
    for (int w = 0; w < 8; w++)
        whole += parts[w][i][j];
    if (blockIdx.x * 16 + i < m) {
        // The rounded value and what rounding lost: together nearly single precision.
        const bf16 high = __float2bfloat16(scale * whole);
        bf16 *to = low + static_cast<size_t>(blockIdx.x * 16 + i) * 2 * RANK + j;
        to[0] = high;
        to[RANK] = __float2bfloat16(scale * whole - __bfloat162float(high));
    }
}

// Adds low * b^T to the accumulators: two more steps of the product, one for each half of `low`.
__device__ __forceinline__ void add_low_rank(float (&sum)[DOWN][ACROSS][4], const bf16 *__restrict__ low,
                                             const bf16 *__restrict__ b, int row, int col, int m, int n)
{
    const int lane = threadIdx.x % 32;
    unsigned q[ACROSS][2];
#pragma unroll
    for (int s = 0; s < ACROSS; s++) {
        const int j = col + 8 * s + lane / 4;
        const unsigned *from = reinterpret_cast<const unsigned *>(b + static_cast<size_t>(j) * RANK) + lane % 4;
        q[s][0] = j < n ? from[0] : 0;
        q[s][1] = j < n ? from[4] : 0;
    }
#pragma unroll
    for (int r = 0; r < DOWN; r++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row + 16 * r + lane / 4;
            const unsigned *from = reinterpret_cast<const unsigned *>(low + static_cast<size_t>(i) * 2 * RANK) +
                                   half * RANK / 2 + lane % 4;
            unsigned p[4];
            p[0] = i < m ? from[0] : 0;
            p[1] = i + 8 < m ? from[8 * RANK] : 0;
            p[2] = i < m ? from[4] : 0;
            p[3] = i + 8 < m ? from[8 * RANK + 4] : 0;
#pragma unroll
            for (int s = 0; s < ACROSS; s++)
                multiply(sum[r][s], p, q[s][0], q[s][1]);
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear(const bf16 *__restrict__ x, const bf16 *__restrict__ w, const bf16 *__restrict__ low,
           const bf16 *__restrict__ b, bf16 *__restrict__ out, int m, int n, int k)
{
    extern __shared__ __align__(128) unsigned char stages[];
    const int row = blockIdx.y * ROWS, col = blockIdx.x * COLS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, y = warp / 4 * 64, across = warp % 4 * 32;
    float sum[DOWN][ACROSS][4] = {};
    product(sum, stages, x, w, row, col, m, n, k, y, across);
    add_low_rank(sum, low, b, row + y, col + across, m, n);
#pragma unroll
    for (int r = 0; r < DOWN; r++)
#pragma unroll
        for (int s = 0; s < ACROSS; s++) {
            const int i = row + y + 16 * r + lane / 4, j = col + across + 8 * s + lane % 4 * 2;
            put(out, i, j, m, n, sum[r][s][0], sum[r][s][1]);
            put(out, i + 8, j, m, n, sum[r][s][2], sum[r][s][3]);
        }
}
