#include <cuda_bf16.h>

#define THREADS 128
#define ROWS 128
#define COLS 64
#define DEPTH 64
#define STAGES 3
#define LEFT (ROWS * DEPTH)
#define STAGE (LEFT + 2 * COLS * DEPTH)
#define ALL 0xffffffffu

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

// A warp's tile of 64 x 32 of both products from one stage; the rows of `up` lie behind those of `gate`.
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
            load_matrices(q[s],
                          right + place(s / 2 * COLS + x + s % 2 * 16 + lane / 16 * 8 + lane % 8,
                                        2 * step + lane / 8 % 2));
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

__device__ __forceinline__ float gated(float gate, float up)
{
    return __fdividef(gate, 1.0f + __expf(-gate)) * up;
}

struct Place {
    int expert, row, end;
};

// The expert and the rows of this block: tiles are counted over the experts, 32 of them at a time.
__device__ __forceinline__ Place find_place(const int *__restrict__ offsets, int experts, int tile)
{
    const int lane = threadIdx.x % 32;
    for (int base = 0; base < experts; base += 32) {
        const int expert = base + lane;
        const int begin = offsets[min(expert, experts)], end = offsets[min(expert + 1, experts)];
        const int count = (end - begin + ROWS - 1) / ROWS;
        int upto = count;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const int before = __shfl_up_sync(ALL, upto, step);
            upto += lane >= step ? before : 0;
        }
        const unsigned beyond = __ballot_sync(ALL, tile < upto);
        if (beyond != 0) {
            const int owner = __ffs(beyond) - 1;
            const int row = __shfl_sync(ALL, begin + (tile - (upto - count)) * ROWS, owner);
            return {base + owner, row, __shfl_sync(ALL, end, owner)};
        }
        tile -= __shfl_sync(ALL, upto, 31);
    }
    return {-1, 0, 0};
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    expert_swiglu(const __nv_bfloat16 *__restrict__ a, const __nv_bfloat16 *__restrict__ gates,
                  const __nv_bfloat16 *__restrict__ ups, const int *__restrict__ tokens,
                  const int *__restrict__ offsets, __nv_bfloat16 *__restrict__ c, int experts, int n, int k)
{
    extern __shared__ __align__(128) __nv_bfloat16 stages[];
    const Place place_of = find_place(offsets, experts, blockIdx.y);
    if (place_of.expert < 0)
        return;
    const int row = place_of.row, m = place_of.end, col = blockIdx.x * COLS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int y = warp / 2 * 64, x = warp % 2 * 32;
    const int tiles = (k + DEPTH - 1) / DEPTH;
    const __nv_bfloat16 *gate = gates + static_cast<size_t>(place_of.expert) * n * k;
    const __nv_bfloat16 *up = ups + static_cast<size_t>(place_of.expert) * n * k;
    int token[ROWS * 8 / THREADS];
#pragma unroll
    for (int part = 0; part < ROWS * 8 / THREADS; part++) {
        const int i = row + threadIdx.x / 8 + part * (THREADS / 8);
        token[part] = i < m ? tokens[i] : -1;
    }
    float sum[4][8][4] = {};
    const auto load = [&](int tile) {
        __nv_bfloat16 *stage = stages + tile % STAGES * STAGE;
        const int chunk = threadIdx.x % 8, j = tile * DEPTH + chunk * 8;
#pragma unroll
        for (int part = 0; part < ROWS * 8 / THREADS; part++) {
            const bool inside = token[part] >= 0 && j < k;
            copy_async(stage + place(threadIdx.x / 8 + part * (THREADS / 8), chunk),
                       inside ? a + static_cast<size_t>(token[part]) * k + j : a, inside);
        }
        copy_tile<COLS>(stage + LEFT, gate, col, n, tile * DEPTH, k);
        copy_tile<COLS>(stage + LEFT + COLS * DEPTH, up, col, n, tile * DEPTH, k);
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
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                put(c, row + y + 16 * r + 8 * half + lane / 4, col + x + 8 * s + lane % 4 * 2, m, n,
                    gated(sum[r][s][2 * half], sum[r][s + 4][2 * half]),
                    gated(sum[r][s][2 * half + 1], sum[r][s + 4][2 * half + 1]));
}
