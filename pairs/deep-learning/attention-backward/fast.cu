#include <cuda_bf16.h>

#define DIM 64
#define WIDE 128
#define NARROW 32
#define THREADS 128
#define STAGE (2 * NARROW * DIM)
#define LOG2E 1.4426950408889634f

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

// Where 16 bytes of a row lie: chunks are exchanged within eight rows.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * DIM + (chunk ^ row & 7) * 8;
}

// COUNT rows from `row` on, at `stride` elements; zeros from `rows` on.
template <int COUNT>
__device__ __forceinline__ void copy_rows(__nv_bfloat16 *to, const __nv_bfloat16 *__restrict__ from, int row, int rows,
                                          size_t stride)
{
#pragma unroll 4
    for (int part = 0; part < COUNT * DIM / 8 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS, i = item / (DIM / 8), chunk = item % (DIM / 8);
        const bool inside = row + i < rows;
        copy_async(to + place(i, chunk), inside ? from + (row + i) * stride + chunk * 8 : from, inside);
    }
}

// Four matrices of eight rows by 16 bytes; each lane names one row.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const void *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from)) : "memory");
}

__device__ __forceinline__ void load_transposed(unsigned (&to)[4], const void *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
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

__device__ __forceinline__ float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ unsigned pack(float low, float high)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned *>(&pair);
}

// 32 rows of one matrix times 32 of another.
__device__ __forceinline__ void dot_rows(float (&s)[2][NARROW / 8][4], const __nv_bfloat16 *left,
                                         const __nv_bfloat16 *right)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 2
    for (int step = 0; step < DIM / 16; step++) {
        unsigned p[2][4];
#pragma unroll
        for (int r = 0; r < 2; r++)
            load_matrices(p[r], left + place(16 * r + lane % 16, 2 * step + lane / 16));
#pragma unroll
        for (int i = 0; i < NARROW / 16; i++) {
            unsigned b[4];
            load_matrices(b, right + place(16 * i + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
#pragma unroll
            for (int r = 0; r < 2; r++) {
                multiply(s[r][2 * i], p[r], b[0], b[1]);
                multiply(s[r][2 * i + 1], p[r], b[2], b[3]);
            }
        }
    }
}

// Adds 32 x 32 weights, rounded to bfloat16, times 32 rows.
__device__ __forceinline__ void add_rows(float (&sum)[2][DIM / 8][4], const float (&s)[2][NARROW / 8][4],
                                         const __nv_bfloat16 *right)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < NARROW / 16; i++) {
        unsigned p[2][4];
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                p[r][e] = pack(s[r][2 * i + e / 2][e % 2 * 2], s[r][2 * i + e / 2][e % 2 * 2 + 1]);
#pragma unroll
        for (int d = 0; d < DIM / 16; d++) {
            unsigned b[4];
            load_transposed(b, right + place(16 * i + lane % 16, 2 * d + lane / 16));
#pragma unroll
            for (int r = 0; r < 2; r++) {
                multiply(sum[r][2 * d], p[r], b[0], b[1]);
                multiply(sum[r][2 * d + 1], p[r], b[2], b[3]);
            }
        }
    }
}

__device__ __forceinline__ void store_rows(__nv_bfloat16 *__restrict__ to, const float (&sum)[2][DIM / 8][4], int row,
                                           int n, float factor)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row + 16 * r + 8 * half + lane / 4;
            if (i >= n)
                continue;
#pragma unroll
            for (int d = 0; d < DIM / 8; d++)
                *reinterpret_cast<unsigned *>(to + static_cast<size_t>(i) * DIM + 8 * d + lane % 4 * 2) =
                    pack(sum[r][d][2 * half] * factor, sum[r][d][2 * half + 1] * factor);
        }
}

// For each query the product of its result with that result's gradient, and the logarithm of its sum to base 2.
extern "C" __global__ void __launch_bounds__(THREADS)
    row_products(const uint4 *__restrict__ out, const uint4 *__restrict__ dout, const float *__restrict__ lse,
                 float2 *__restrict__ rows_of, int rows)
{
    const int at = blockIdx.x * THREADS + threadIdx.x, row = at / 8;
    float sum = 0.0f;
    if (row < rows) {
        uint4 x = out[at], y = dout[at];
        const __nv_bfloat162 *p = reinterpret_cast<const __nv_bfloat162 *>(&x);
        const __nv_bfloat162 *q = reinterpret_cast<const __nv_bfloat162 *>(&y);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 a = __bfloat1622float2(p[i]), b = __bfloat1622float2(q[i]);
            sum = fmaf(a.x, b.x, fmaf(a.y, b.y, sum));
        }
    }
#pragma unroll
    for (int offset = 4; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (row < rows && at % 8 == 0)
        rows_of[row] = make_float2(lse[row] * LOG2E, sum);
}

// 128 keys a block, 32 a warp: the gradients of keys and values, over the queries that see them.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    key_gradients(const __nv_bfloat16 *__restrict__ q, const __nv_bfloat16 *__restrict__ k,
                  const __nv_bfloat16 *__restrict__ v, const __nv_bfloat16 *__restrict__ dout,
                  const float2 *__restrict__ rows_of, __nv_bfloat16 *__restrict__ dk, __nv_bfloat16 *__restrict__ dv,
                  int n, float scale)
{
    extern __shared__ __align__(128) __nv_bfloat16 room[];
    __nv_bfloat16 *keys = room, *values = room + WIDE * DIM, *stages = values + WIDE * DIM;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first = blockIdx.y * WIDE, mine = first + warp * 32;
    const int begin = first / NARROW, end = (n + NARROW - 1) / NARROW;
    const size_t head = static_cast<size_t>(blockIdx.x) * n;
    const auto load = [&](int tile) {
        __nv_bfloat16 *stage = stages + tile % 2 * STAGE;
        copy_rows<NARROW>(stage, q + head * DIM, tile * NARROW, n, DIM);
        copy_rows<NARROW>(stage + NARROW * DIM, dout + head * DIM, tile * NARROW, n, DIM);
        commit();
    };
    copy_rows<WIDE>(keys, k + head * DIM, first, n, DIM);
    copy_rows<WIDE>(values, v + head * DIM, first, n, DIM);
    load(begin);
    float key_sum[2][DIM / 8][4] = {}, value_sum[2][DIM / 8][4] = {};
    for (int tile = begin; tile < end; tile++) {
        wait_copies<0>();
        __syncthreads();
        if (tile + 1 < end)
            load(tile + 1);
        const __nv_bfloat16 *queries = stages + tile % 2 * STAGE, *gradients = queries + NARROW * DIM;
        float s[2][NARROW / 8][4] = {}, ds[2][NARROW / 8][4] = {};
        dot_rows(s, keys + warp * 32 * DIM, queries);
        dot_rows(ds, values + warp * 32 * DIM, gradients);
#pragma unroll
        for (int query = 0; query < NARROW / 8; query++)
#pragma unroll
            for (int side = 0; side < 2; side++) {
                const int i = tile * NARROW + 8 * query + lane % 4 * 2 + side;
                const float2 row = rows_of[head + min(i, n - 1)];
#pragma unroll
                for (int r = 0; r < 2; r++)
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        const int e = 2 * half + side, j = mine + 16 * r + 8 * half + lane / 4;
                        const float power = power_of_2(fmaf(s[r][query][e], scale * LOG2E, -row.x));
                        s[r][query][e] = j <= i && i < n ? power : 0.0f;
                        ds[r][query][e] = s[r][query][e] * (ds[r][query][e] - row.y);
                    }
            }
        add_rows(value_sum, s, gradients);
        add_rows(key_sum, ds, queries);
    }
    store_rows(dk + head * DIM, key_sum, mine, n, scale);
    store_rows(dv + head * DIM, value_sum, mine, n, 1.0f);
}

// 128 queries a block, 32 a warp: their gradients, over the keys that they see.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    query_gradients(const __nv_bfloat16 *__restrict__ q, const __nv_bfloat16 *__restrict__ k,
                    const __nv_bfloat16 *__restrict__ v, const __nv_bfloat16 *__restrict__ dout,
                    const float2 *__restrict__ rows_of, __nv_bfloat16 *__restrict__ dq, int n, float scale)
{
    extern __shared__ __align__(128) __nv_bfloat16 room[];
    __nv_bfloat16 *queries = room, *gradients = room + WIDE * DIM, *stages = gradients + WIDE * DIM;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first = (gridDim.y - 1 - blockIdx.y) * WIDE, mine = first + warp * 32;
    const int end = (min(first + WIDE, n) + NARROW - 1) / NARROW;
    const size_t head = static_cast<size_t>(blockIdx.x) * n;
    const auto load = [&](int tile) {
        __nv_bfloat16 *stage = stages + tile % 2 * STAGE;
        copy_rows<NARROW>(stage, k + head * DIM, tile * NARROW, n, DIM);
        copy_rows<NARROW>(stage + NARROW * DIM, v + head * DIM, tile * NARROW, n, DIM);
        commit();
    };
    copy_rows<WIDE>(queries, q + head * DIM, first, n, DIM);
    copy_rows<WIDE>(gradients, dout + head * DIM, first, n, DIM);
    load(0);
    float2 row[2][2];
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            row[r][half] = rows_of[head + min(mine + 16 * r + 8 * half + lane / 4, n - 1)];
    float sum[2][DIM / 8][4] = {};
    for (int tile = 0; tile < end; tile++) {
        wait_copies<0>();
        __syncthreads();
        if (tile + 1 < end)
            load(tile + 1);
        const __nv_bfloat16 *keys = stages + tile % 2 * STAGE, *values = keys + NARROW * DIM;
        float s[2][NARROW / 8][4] = {}, ds[2][NARROW / 8][4] = {};
        dot_rows(s, queries + warp * 32 * DIM, keys);
        dot_rows(ds, gradients + warp * 32 * DIM, values);
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int key = 0; key < NARROW / 8; key++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int i = mine + 16 * r + e / 2 * 8 + lane / 4;
                    const int j = tile * NARROW + 8 * key + lane % 4 * 2 + e % 2;
                    const float power = power_of_2(fmaf(s[r][key][e], scale * LOG2E, -row[r][e / 2].x));
                    ds[r][key][e] = j <= i ? power * (ds[r][key][e] - row[r][e / 2].y) : 0.0f;
                }
        add_rows(sum, ds, keys);
    }
    store_rows(dq + head * DIM, sum, mine, n, scale);
}
