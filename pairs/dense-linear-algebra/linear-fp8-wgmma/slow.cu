#include <cuda_bf16.h>

#define THREADS 256
#define ROWS 128
#define COLS 128
#define DEPTH 128
#define STAGES 3
#define LEFT_BYTES (ROWS * DEPTH)
#define STAGE_BYTES (LEFT_BYTES + COLS * DEPTH)

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Where 16 bytes of a row lie: rows of 128 bytes, chunks exchanged within eight rows.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * DEPTH + ((chunk ^ row) & 7) * 16;
}

__device__ __forceinline__ void copy_tile(unsigned char *to, const unsigned char *__restrict__ from, int row, int rows,
                                          int depth, int k)
{
#pragma unroll 1
    for (int part = 0; part < ROWS * DEPTH / 16 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS;
        const int i = item / (DEPTH / 16), chunk = item % (DEPTH / 16), j = depth + chunk * 16;
        unsigned char *target = to + place(i, chunk);
        if (k % 16 == 0) {
            const bool inside = row + i < rows && j < k;
            const unsigned char *source = inside ? from + static_cast<size_t>(row + i) * k + j : from;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(target)), "l"(source),
                         "r"(inside ? 16 : 0) : "memory");
        } else {
            for (int s = 0; s < 16; s++) {
                const bool inside = row + i < rows && j + s < k;
                target[s] = inside ? from[static_cast<size_t>(row + i) * k + j + s] : 0;
            }
        }
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
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply_stage(float (&sum)[4][4][4], const unsigned char *left,
                                               const unsigned char *right, int y, int x)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int i = 0; i < DEPTH / 16; i += 2) {
        unsigned p[4], q[2][4];
#pragma unroll
        for (int s = 0; s < 2; s++)
            load_matrices(q[s], right + place(x + 16 * s + lane / 16 * 8 + lane % 8, i + lane / 8 % 2));
#pragma unroll
        for (int r = 0; r < 4; r++) {
            load_matrices(p, left + place(y + 16 * r + lane % 16, i + lane / 16));
#pragma unroll
            for (int s = 0; s < 4; s++)
                multiply(sum[r][s], p, q[s / 2][s % 2 * 2], q[s / 2][s % 2 * 2 + 1]);
        }
    }
}

__device__ __forceinline__ void put(__nv_bfloat16 *__restrict__ c, int row, int col, int m, int n, float left,
                                    float right)
{
    if (row >= m || col >= n)
        return;
    __nv_bfloat16 *to = c + static_cast<size_t>(row) * n + col;
    if (n % 2 == 0) {
        *reinterpret_cast<__nv_bfloat162 *>(to) = __floats2bfloat162_rn(left, right);
        return;
    }
    to[0] = __float2bfloat16(left);
    if (col + 1 < n)
        to[1] = __float2bfloat16(right);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, __nv_bfloat16 *__restrict__ c,
           float scale, int m, int n, int k)
{
    extern __shared__ __align__(128) unsigned char stages[];
    const int row = blockIdx.y * ROWS, col = blockIdx.x * COLS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int y = warp / 4 * 64, x = warp % 4 * 32;
    const int tiles = (k + DEPTH - 1) / DEPTH;
    float sum[4][4][4] = {};

    for (int tile = 0; tile < STAGES - 1; tile++) {
        unsigned char *stage = stages + tile * STAGE_BYTES;
        if (tile < tiles) {
            copy_tile(stage, a, row, m, tile * DEPTH, k);
            copy_tile(stage + LEFT_BYTES, b, col, n, tile * DEPTH, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int tile = 0; tile < tiles; tile++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = tile + STAGES - 1;
        if (next < tiles) {
            unsigned char *stage = stages + next % STAGES * STAGE_BYTES;
            copy_tile(stage, a, row, m, next * DEPTH, k);
            copy_tile(stage + LEFT_BYTES, b, col, n, next * DEPTH, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        const unsigned char *stage = stages + tile % STAGES * STAGE_BYTES;
        multiply_stage(sum, stage, stage + LEFT_BYTES, y, x);
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");

#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int i = row + y + 16 * r + lane / 4, j = col + x + 8 * s + lane % 4 * 2;
            put(c, i, j, m, n, scale * sum[r][s][0], scale * sum[r][s][1]);
            put(c, i + 8, j, m, n, scale * sum[r][s][2], scale * sum[r][s][3]);
        }
}
