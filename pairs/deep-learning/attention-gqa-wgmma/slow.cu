#include <cuda_bf16.h>

#define DIM 128
#define QUERIES 128
#define KEYS 64
#define THREADS 128
#define TILE (KEYS * DIM)
#define LOG2E 1.4426950408889634f
#define LOWEST -1.0e30f
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

// What a thread knows of its four rows: the largest score, and its share of the sum of weights.
struct Rows {
    float largest[2][2], sum[2][2];
};

// The scores of 32 queries and KEYS keys.
__device__ __forceinline__ void score(float (&s)[2][KEYS / 8][4], const __nv_bfloat16 *queries,
                                      const __nv_bfloat16 *keys)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 2
    for (int step = 0; step < DIM / 16; step++) {
        unsigned p[2][4];
#pragma unroll
        for (int r = 0; r < 2; r++)
            load_matrices(p[r], queries + place(16 * r + lane % 16, 2 * step + lane / 16));
#pragma unroll
        for (int key = 0; key < KEYS / 16; key++) {
            unsigned b[4];
            load_matrices(b, keys + place(16 * key + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
#pragma unroll
            for (int r = 0; r < 2; r++) {
                multiply(s[r][2 * key], p[r], b[0], b[1]);
                multiply(s[r][2 * key + 1], p[r], b[2], b[3]);
            }
        }
    }
}

// Scores to weights; what was summed so far shrinks where a larger score was found. `scale` is to base 2. A row's
// first tile has a score that is not masked, or the row began with one.
__device__ __forceinline__ void weigh(float (&s)[2][KEYS / 8][4], float (&o)[2][DIM / 8][4], Rows &rows, float scale)
{
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float top = rows.largest[r][half];
#pragma unroll
            for (int key = 0; key < KEYS / 8; key++)
                top = fmaxf(top, fmaxf(s[r][key][2 * half], s[r][key][2 * half + 1]));
            top = fmaxf(top, __shfl_xor_sync(ALL, top, 1));
            top = fmaxf(top, __shfl_xor_sync(ALL, top, 2));
            const float shrink = power_of_2((rows.largest[r][half] - top) * scale);
            rows.largest[r][half] = top;
            const float base = top * scale;
            float sum = rows.sum[r][half] * shrink;
#pragma unroll
            for (int key = 0; key < KEYS / 8; key++)
#pragma unroll
                for (int e = 2 * half; e < 2 * half + 2; e++) {
                    s[r][key][e] = power_of_2(fmaf(s[r][key][e], scale, -base));
                    sum += s[r][key][e];
                }
            rows.sum[r][half] = sum;
#pragma unroll
            for (int d = 0; d < DIM / 8; d++) {
                o[r][d][2 * half] *= shrink;
                o[r][d][2 * half + 1] *= shrink;
            }
        }
}

// Adds the weighted values. The weights become the left factor where they are, rounded to bfloat16.
__device__ __forceinline__ void add_values(float (&o)[2][DIM / 8][4], const float (&s)[2][KEYS / 8][4],
                                           const __nv_bfloat16 *values)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int key = 0; key < KEYS / 16; key++) {
        unsigned p[2][4];
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                p[r][e] = pack(s[r][2 * key + e / 2][e % 2 * 2], s[r][2 * key + e / 2][e % 2 * 2 + 1]);
#pragma unroll
        for (int d = 0; d < DIM / 16; d++) {
            unsigned b[4];
            load_transposed(b, values + place(16 * key + lane % 16, 2 * d + lane / 16));
#pragma unroll
            for (int r = 0; r < 2; r++) {
                multiply(o[r][2 * d], p[r], b[0], b[1]);
                multiply(o[r][2 * d + 1], p[r], b[2], b[3]);
            }
        }
    }
}

// A warp's 32 rows leave through its part of the queries' memory, 16 bytes a thread.
__device__ __forceinline__ void store_rows(__nv_bfloat16 *room, const float (&o)[2][DIM / 8][4], const Rows &rows,
                                           __nv_bfloat16 *__restrict__ out, int row, int end, size_t stride)
{
    const int lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = rows.sum[r][half];
            sum += __shfl_xor_sync(ALL, sum, 1);
            sum += __shfl_xor_sync(ALL, sum, 2);
            const float by = __fdividef(1.0f, sum);
#pragma unroll
            for (int d = 0; d < DIM / 8; d++)
                *reinterpret_cast<unsigned *>(room + place(16 * r + 8 * half + lane / 4, d) + lane % 4 * 2) =
                    pack(o[r][d][2 * half] * by, o[r][d][2 * half + 1] * by);
        }
    __syncwarp();
#pragma unroll
    for (int item = lane; item < 32 * DIM / 8; item += 32) {
        const int i = item / (DIM / 8), chunk = item % (DIM / 8);
        if (row + i < end)
            *reinterpret_cast<uint4 *>(out + (row + i) * stride + chunk * 8) =
                *reinterpret_cast<const uint4 *>(room + place(i, chunk));
    }
}

// The last `queries` of `n` positions attend to all before them; `group` heads share keys and values.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    attention(const __nv_bfloat16 *__restrict__ q, const __nv_bfloat16 *__restrict__ k,
              const __nv_bfloat16 *__restrict__ v,
              __nv_bfloat16 *__restrict__ out, int queries, int n, int kv_heads, int group, float scale)
{
    extern __shared__ __align__(128) __nv_bfloat16 room[];
    __nv_bfloat16 *keys = room + QUERIES * DIM, *values = keys + 2 * TILE;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __nv_bfloat16 *mine = room + warp * 32 * DIM;
    const int row = (gridDim.y - 1 - blockIdx.y) * QUERIES, before = n - queries;
    const int tiles = (min(row + QUERIES, queries) + before + KEYS - 1) / KEYS;
    const int heads = kv_heads * group, head = blockIdx.x, batch = blockIdx.z;
    const size_t stride = static_cast<size_t>(heads) * DIM, kv_stride = static_cast<size_t>(kv_heads) * DIM;
    const size_t first = batch * queries * stride + head * DIM;
    k += batch * n * kv_stride + head / group * DIM;
    v += batch * n * kv_stride + head / group * DIM;
    copy_rows<QUERIES>(room, q + first, row, queries, stride);
    const auto load_keys = [&](int tile) {
        copy_rows<KEYS>(keys + tile % 2 * TILE, k, tile * KEYS, n, kv_stride);
        commit();
    };
    const auto load_values = [&](int tile) {
        copy_rows<KEYS>(values + tile % 2 * TILE, v, tile * KEYS, n, kv_stride);
        commit();
    };
    float o[2][DIM / 8][4] = {};
    Rows rows = {{{LOWEST, LOWEST}, {LOWEST, LOWEST}}, {}};
    load_keys(0);
    load_values(0);
    for (int tile = 0; tile < tiles; tile++) {
        wait_copies<1>();
        __syncthreads();
        if (tile + 1 < tiles)
            load_keys(tile + 1);
        else
            commit();
        float s[2][KEYS / 8][4] = {};
        score(s, mine, keys + tile % 2 * TILE);
        if (tile * KEYS + KEYS > row + warp * 32 + before)
#pragma unroll
            for (int r = 0; r < 2; r++)
#pragma unroll
                for (int key = 0; key < KEYS / 8; key++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const int i = row + warp * 32 + 16 * r + e / 2 * 8 + lane / 4;
                        const int j = tile * KEYS + 8 * key + lane % 4 * 2 + e % 2;
                        if (j > i + before)
                            s[r][key][e] = LOWEST;
                    }
        weigh(s, o, rows, scale * LOG2E);
        wait_copies<1>();
        __syncthreads();
        if (tile + 1 < tiles)
            load_values(tile + 1);
        else
            commit();
        add_values(o, s, values + tile % 2 * TILE);
    }
    store_rows(mine, o, rows, out + first, row + warp * 32, queries, stride);
}
