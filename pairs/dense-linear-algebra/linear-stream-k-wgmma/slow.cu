#include <cuda/atomic>
#include <cuda_bf16.h>

#define THREADS 128
#define ROWS 128
#define COLS 128
#define DEPTH 64
#define STAGES 3
#define LEFT (ROWS * DEPTH)
#define STAGE (LEFT + COLS * DEPTH)
#define PART (ROWS * COLS)

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

// A warp's tile of 64 x 64 from one stage.
__device__ __forceinline__ void multiply_stage(float (&sum)[4][8][4], const __nv_bfloat16 *left,
                                               const __nv_bfloat16 *right, int y, int x)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < DEPTH / 16; step++) {
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

typedef cuda::atomic_ref<unsigned, cuda::thread_scope_device> Flag;

// Where a block's share of all steps begins.
__device__ __forceinline__ int first_step(int block, int steps)
{
    return static_cast<int>(static_cast<long long>(steps) * block / gridDim.x);
}

__device__ __forceinline__ void leave_part(const float (&sum)[4][8][4], float4 *part, unsigned *flag)
{
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 8; s++)
            __stcg(part + (r * 8 + s) * THREADS + threadIdx.x,
                   make_float4(sum[r][s][0], sum[r][s][1], sum[r][s][2], sum[r][s][3]));
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        Flag(*flag).store(1, cuda::memory_order_release);
}

__device__ __forceinline__ void add_part(float (&sum)[4][8][4], const float4 *part, unsigned *flag)
{
    if (threadIdx.x == 0)
        while (Flag(*flag).load(cuda::memory_order_acquire) == 0) {
        }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 8; s++) {
            const float4 more = __ldcg(part + (r * 8 + s) * THREADS + threadIdx.x);
            sum[r][s][0] += more.x;
            sum[r][s][1] += more.y;
            sum[r][s][2] += more.z;
            sum[r][s][3] += more.w;
        }
}

// A block walks its share of the steps of all tiles from the last tile to the first. It ends with the tile whose
// first steps belong to blocks before it, which have begun with those.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear(const __nv_bfloat16 *__restrict__ a, const __nv_bfloat16 *__restrict__ b, __nv_bfloat16 *__restrict__ c,
           float4 *__restrict__ parts, unsigned *__restrict__ flags, int m, int n, int k)
{
    extern __shared__ __align__(128) __nv_bfloat16 stages[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, block = blockIdx.x;
    const int y = warp / 2 * 64, x = warp % 2 * 64;
    const int depth = (k + DEPTH - 1) / DEPTH, across = (n + COLS - 1) / COLS;
    const int steps = (m + ROWS - 1) / ROWS * across * depth;
    const int low = first_step(block, steps);
    for (int end = first_step(block + 1, steps); end > low;) {
        const int whole = (end - 1) / depth, begin = max(low, whole * depth), from = begin - whole * depth;
        const int row = whole / across * ROWS, col = whole % across * COLS, tiles = end - begin;
        float sum[4][8][4] = {};
        const auto load = [&](int tile) {
            __nv_bfloat16 *stage = stages + tile % STAGES * STAGE;
            copy_tile<ROWS>(stage, a, row, m, (from + tile) * DEPTH, k);
            copy_tile<COLS>(stage + LEFT, b, col, n, (from + tile) * DEPTH, k);
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
        __syncthreads();
        if (end < (whole + 1) * depth) {
            leave_part(sum, parts + static_cast<size_t>(block) * (PART / 4), flags + block);
        } else {
            for (int other = block; first_step(other, steps) > whole * depth;) {
                other--;
                add_part(sum, parts + static_cast<size_t>(other) * (PART / 4), flags + other);
            }
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int s = 0; s < 8; s++) {
                    const int i = row + y + 16 * r + lane / 4, j = col + x + 8 * s + lane % 4 * 2;
                    put(c, i, j, m, n, sum[r][s][0], sum[r][s][1]);
                    put(c, i + 8, j, m, n, sum[r][s][2], sum[r][s][3]);
                }
        }
        end = begin;
    }
}
