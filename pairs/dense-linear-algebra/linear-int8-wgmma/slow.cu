#include <cuda_bf16.h>

#define THREADS 128
#define ROWS 128
#define COLS 128
#define DEPTH 128
#define STAGES 3
#define LEFT (ROWS * DEPTH)
#define STAGE (LEFT + COLS * DEPTH)

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// 16 bytes to shared memory in the background; zeros where there is nothing to read.
__device__ __forceinline__ void copy_async(void *to, const void *from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(inside ? 16 : 0) : "memory");
}

__device__ __forceinline__ void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// All groups of copies have arrived but the last PENDING.
template <int PENDING> __device__ __forceinline__ void wait_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Where 16 bytes of a row lie: rows of 128 bytes, chunks exchanged within eight rows.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * DEPTH + ((chunk ^ row) & 7) * 16;
}

// COUNT rows of 128 bytes, each thread 16 bytes at a time.
template <int COUNT>
__device__ __forceinline__ void copy_tile(signed char *to, const signed char *__restrict__ from, int row, int rows,
                                          int depth, int k)
{
#pragma unroll
    for (int part = 0; part < COUNT * 8 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS;
        const int i = item / 8, chunk = item % 8, j = depth + chunk * 16;
        const bool inside = row + i < rows && j < k;
        copy_async(to + place(i, chunk), inside ? from + static_cast<size_t>(row + i) * k + j : from, inside);
    }
}

// Four matrices of eight rows by 16 bytes; each lane names one row.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const void *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from)) : "memory");
}

__device__ __forceinline__ void multiply(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A warp's tile of 64 x 64 from one stage.
__device__ __forceinline__ void multiply_stage(int (&sum)[4][8][4], const signed char *left, const signed char *right,
                                               int y, int x)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < DEPTH / 32; step++) {
        unsigned p[4][4], q[4][4];
#pragma unroll
        for (int r = 0; r < 4; r++)
            load_matrices(p[r], left + place(y + 16 * r + lane % 16, 2 * step + lane / 16));
#pragma unroll
        for (int s = 0; s < 4; s++)
            load_matrices(q[s], right + place(x + 16 * s + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int s = 0; s < 8; s++)
                multiply(sum[r][s], p[r], q[s / 2][s % 2 * 2], q[s / 2][s % 2 * 2 + 1]);
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
    linear(const signed char *__restrict__ a, const signed char *__restrict__ b, const float *__restrict__ row_scale,
           const float *__restrict__ col_scale, __nv_bfloat16 *__restrict__ c, int m, int n, int k)
{
    extern __shared__ __align__(128) signed char stages[];
    const int row = blockIdx.y * ROWS, col = blockIdx.x * COLS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int y = warp / 2 * 64, x = warp % 2 * 64;
    const int tiles = (k + DEPTH - 1) / DEPTH;
    int sum[4][8][4] = {};
    const auto load = [&](int tile) {
        signed char *stage = stages + tile % STAGES * STAGE;
        copy_tile<ROWS>(stage, a, row, m, tile * DEPTH, k);
        copy_tile<COLS>(stage + LEFT, b, col, n, tile * DEPTH, k);
    };
    for (int tile = 0; tile < STAGES - 1; tile++) {
        if (tile < tiles)
            load(tile);
        commit();
    }
    for (int tile = 0; tile < tiles; tile++) {
        wait_copies<STAGES - 2>();
        __syncthreads();
        if (tile + STAGES - 1 < tiles)
            load(tile + STAGES - 1);
        commit();
        const signed char *stage = stages + tile % STAGES * STAGE;
        multiply_stage(sum, stage, stage + LEFT, y, x);
    }

    float by_col[8][2];
#pragma unroll
    for (int s = 0; s < 8; s++)
#pragma unroll
        for (int side = 0; side < 2; side++) {
            const int j = col + x + 8 * s + lane % 4 * 2 + side;
            by_col[s][side] = j < n ? col_scale[j] : 0.0f;
        }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row + y + 16 * r + 8 * half + lane / 4;
            const float by_row = i < m ? row_scale[i] : 0.0f;
#pragma unroll
            for (int s = 0; s < 8; s++)
                put(c, i, col + x + 8 * s + lane % 4 * 2, m, n, sum[r][s][2 * half] * by_row * by_col[s][0],
                    sum[r][s][2 * half + 1] * by_row * by_col[s][1]);
        }
}
