#include <cooperative_groups.h>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;

#define THREADS 128
#define SPLITS 8
#define ROWS 64
#define COLS 128
#define DEPTH 64
#define STAGES 4
#define LEFT (ROWS * DEPTH)
#define STAGE (LEFT + COLS * DEPTH)
#define PITCH (COLS + 4)

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
    return row * DEPTH + ((chunk ^ row) & 7) * 8;
}

// COUNT rows of 128 bytes, each thread 16 bytes at a time.
template <int COUNT>
__device__ __forceinline__ void copy_tile(__nv_bfloat16 *to, const __nv_bfloat16 *__restrict__ from, int row, int rows,
                                          int depth, int k)
{
#pragma unroll
    for (int part = 0; part < COUNT * 8 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS;
        const int i = item / 8, chunk = item % 8, j = depth + chunk * 8;
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

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A warp's tile of 32 x 64 from one stage.
__device__ __forceinline__ void multiply_stage(float (&sum)[2][8][4], const __nv_bfloat16 *left,
                                               const __nv_bfloat16 *right, int y, int x)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < DEPTH / 16; step++) {
        unsigned p[2][4], q[4][4];
#pragma unroll
        for (int r = 0; r < 2; r++)
            load_matrices(p[r], left + place(y + 16 * r + lane % 16, 2 * step + lane / 16));
#pragma unroll
        for (int s = 0; s < 4; s++)
            load_matrices(q[s], right + place(x + 16 * s + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
#pragma unroll
        for (int r = 0; r < 2; r++)
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

// Each block of the cluster adds up and stores its share of the rows, reading the others' shared memory.
__device__ __forceinline__ void add_parts(cg::cluster_group cluster, float *mine, __nv_bfloat16 *__restrict__ c,
                                          int row,
                                          int col, int m, int n)
{
    constexpr int SHARE = ROWS / SPLITS;
    const int first = static_cast<int>(cluster.block_rank()) * SHARE;
#pragma unroll
    for (int item = threadIdx.x; item < SHARE * COLS / 4; item += THREADS) {
        const int i = first + item / (COLS / 4), j = item % (COLS / 4) * 4;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int part = 0; part < SPLITS; part++) {
            const float4 more = *reinterpret_cast<const float4 *>(cluster.map_shared_rank(mine, part) + i * PITCH + j);
            sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
        }
        put(c, row + i, col + j, m, n, sum.x, sum.y);
        put(c, row + i, col + j + 2, m, n, sum.z, sum.w);
    }
}

extern "C" __global__ void __cluster_dims__(1, 1, SPLITS) __launch_bounds__(THREADS, 2)
    linear(const __nv_bfloat16 *__restrict__ a, const __nv_bfloat16 *__restrict__ b, __nv_bfloat16 *__restrict__ c,
           int m, int n, int k)
{
    extern __shared__ __align__(128) __nv_bfloat16 stages[];
    cg::cluster_group cluster = cg::this_cluster();
    const int row = blockIdx.y * ROWS, col = blockIdx.x * COLS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int y = warp / 2 * 32, x = warp % 2 * 64;
    const int all = (k + DEPTH - 1) / DEPTH, share = (all + SPLITS - 1) / SPLITS;
    const int begin = min(static_cast<int>(blockIdx.z) * share, all), tiles = min(share, all - begin);
    float sum[2][8][4] = {};
    const auto load = [&](int tile) {
        __nv_bfloat16 *stage = stages + tile % STAGES * STAGE;
        copy_tile<ROWS>(stage, a, row, m, (begin + tile) * DEPTH, k);
        copy_tile<COLS>(stage + LEFT, b, col, n, (begin + tile) * DEPTH, k);
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
        const __nv_bfloat16 *stage = stages + tile % STAGES * STAGE;
        multiply_stage(sum, stage, stage + LEFT, y, x);
    }
    wait_copies<0>();
    __syncthreads();
    float *mine = reinterpret_cast<float *>(stages);
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int s = 0; s < 8; s++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                *reinterpret_cast<float2 *>(mine + (y + 16 * r + 8 * half + lane / 4) * PITCH + x + 8 * s +
                                            lane % 4 * 2) =
                    make_float2(sum[r][s][2 * half], sum[r][s][2 * half + 1]);
    cluster.sync();
    add_parts(cluster, mine, c, row, col, m, n);
    cluster.sync();
}
