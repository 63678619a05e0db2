// A warp's keys are asked for again as soon as the last ones are multiplied, its values likewise, so that half a page is
// always under way; the pages' numbers are read at once, before the length is known.
#include <cuda_bf16.h>

#define DIM 128
#define PAGE 16
#define GROUP 8
#define WARPS 4
#define THREADS (32 * WARPS)
#define SPAN 256
#define ROUNDS (SPAN / PAGE / WARPS)
#define LOG2E 1.4426950408889634f
#define LOWEST -1.0e30f
#define ALL 0xffffffffu

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

// Weights of two queries for one key as bfloat16, to those of two keys for one query.
__device__ __forceinline__ unsigned transposed(float first, float second)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    unsigned to;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                 : "=r"(to) : "r"(*reinterpret_cast<const unsigned *>(&pair)));
    return to;
}

// Of two queries: the largest score and the sum of weights; and the sums of values, by parts of 16 features.
struct State {
    float largest[2], sum[2], o[8][4];
};

__device__ __forceinline__ void score(float (&s)[4], const uint4 (&upper)[4], const uint4 (&lower)[4],
                                      const uint4 (&query)[4])
{
#pragma unroll
    for (int part = 0; part < 4; part++) {
        const unsigned first[4] = {upper[part].x, lower[part].x, upper[part].y, lower[part].y};
        const unsigned second[4] = {upper[part].z, lower[part].z, upper[part].w, lower[part].w};
        multiply(s, first, query[part].x, query[part].y);
        multiply(s, second, query[part].z, query[part].w);
    }
}

// Adds the values of 16 keys; a lane has 8 features of four keys, twice, and pairs the keys of each feature.
__device__ __forceinline__ void add_values(float (&o)[8][4], const uint4 (&v)[2][4], unsigned first, unsigned second)
{
    const unsigned *words = reinterpret_cast<const unsigned *>(v);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        unsigned pairs[4];
#pragma unroll
        for (int part = 0; part < 4; part++) {
            const unsigned *two = words + part % 2 * 16 + part / 2 * 8 + i / 2;
            pairs[part] = __byte_perm(two[0], two[4], i % 2 ? 0x7632 : 0x5410);
        }
        multiply(o[i], pairs, first, second);
    }
}

__device__ __forceinline__ void weigh(State &state, float (&s)[4], float scale)
{
#pragma unroll
    for (int e = 0; e < 2; e++) {
        float top = fmaxf(state.largest[e], fmaxf(s[e], s[e + 2]));
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2)
            top = fmaxf(top, __shfl_xor_sync(ALL, top, offset));
        const float shrink = power_of_2((state.largest[e] - top) * scale);
        state.largest[e] = top;
        s[e] = power_of_2((s[e] - top) * scale);
        s[e + 2] = power_of_2((s[e + 2] - top) * scale);
        state.sum[e] = fmaf(state.sum[e], shrink, s[e] + s[e + 2]);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            state.o[i][e] *= shrink;
            state.o[i][e + 2] *= shrink;
        }
    }
}

// The warps' states become one, which goes to the block's part of the results.
__device__ __forceinline__ void merge(const State &state, float *results, float2 *stats, float scale)
{
    __shared__ __align__(16) float sums[WARPS][GROUP][DIM + 4];
    __shared__ float2 tops[WARPS][GROUP];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        float sum = state.sum[e];
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2)
            sum += __shfl_xor_sync(ALL, sum, offset);
        // Even queries first, so that a warp's stores of four meet few banks twice.
        const int place = e * 4 + lane % 4;
        if (lane < 4)
            tops[warp][place] = make_float2(state.largest[e], sum);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float4 *to = reinterpret_cast<float4 *>(&sums[warp][place][half * 64 + lane / 4 * 8]);
            const int part = e + 2 * half;
            to[0] = make_float4(state.o[0][part], state.o[1][part], state.o[2][part], state.o[3][part]);
            to[1] = make_float4(state.o[4][part], state.o[5][part], state.o[6][part], state.o[7][part]);
        }
    }
    __syncthreads();
    for (int place = 0; place < GROUP; place++) {
        const int query = place % 4 * 2 + place / 4;
        float top = LOWEST, total = 0.0f, value = 0.0f;
#pragma unroll
        for (int other = 0; other < WARPS; other++)
            top = fmaxf(top, tops[other][place].x);
#pragma unroll
        for (int other = 0; other < WARPS; other++) {
            const float by = power_of_2((tops[other][place].x - top) * scale);
            total = fmaf(tops[other][place].y, by, total);
            value = fmaf(sums[other][place][threadIdx.x], by, value);
        }
        results[query * DIM + threadIdx.x] = value;
        if (threadIdx.x == 0)
            stats[query] = make_float2(top, total);
    }
}

// Where a lane's part of a page begins.
__device__ __forceinline__ size_t page_at(int page, int head, int kv_heads)
{
    return (static_cast<size_t>(page) * PAGE * kv_heads + head) * (DIM / 8);
}

__device__ __forceinline__ void load_keys(uint4 (&upper)[4], uint4 (&lower)[4], const uint4 *__restrict__ k, int stride)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int part = 0; part < 4; part++) {
        const uint4 *from = k + part * 4 + lane % 4;
        upper[part] = __ldcs(from + lane / 4 * stride);
        lower[part] = __ldcs(from + (lane / 4 + 8) * stride);
    }
}

__device__ __forceinline__ void load_values(uint4 (&value)[2][4], const uint4 *__restrict__ v, int stride)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int key = 0; key < 4; key++)
            value[half][key] = __ldcs(v + (lane % 4 * 2 + key / 2 * 8 + key % 2) * stride + half * 8 + lane / 4);
}

// A block has a span of a sequence's keys and eight queries that share them; a warp takes a page at a time, keys as
// left factor of the scores and values, transposed, as left factor of the sums.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    decode(const uint4 *__restrict__ q, const uint4 *__restrict__ k, const uint4 *__restrict__ v,
           const int *__restrict__ table, const int *__restrict__ lengths, float *__restrict__ results,
           float2 *__restrict__ stats, int max_pages, float scale)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int head = blockIdx.y, kv_heads = gridDim.y, sequence = blockIdx.z, stride = kv_heads * (DIM / 8);
    const int number = blockIdx.x * (SPAN / PAGE) + lane % ROUNDS * WARPS + warp;
    const int pages = table[sequence * max_pages + min(number, max_pages - 1)];
    const int length = lengths[sequence], begin = blockIdx.x * SPAN, end = min(begin + SPAN, length);
    if (begin >= length)
        return;
    const size_t group = static_cast<size_t>(sequence) * kv_heads + head;
    State state = {{LOWEST, LOWEST}, {}, {}};
    uint4 upper[4], lower[4], value[2][4], query[4];
    if (begin + warp * PAGE < end) {
        const size_t first = page_at(__shfl_sync(ALL, pages, 0), head, kv_heads);
        load_keys(upper, lower, k + first, stride);
        load_values(value, v + first, stride);
    }
#pragma unroll
    for (int part = 0; part < 4; part++)
        query[part] = q[(group * GROUP + lane / 4) * (DIM / 8) + part * 4 + lane % 4];
#pragma unroll 1
    for (int base = begin + warp * PAGE, round = 1; base < end; base += WARPS * PAGE, round++) {
        const bool more = base + WARPS * PAGE < end;
        const size_t next = page_at(__shfl_sync(ALL, pages, round), head, kv_heads);
        float s[4] = {};
        score(s, upper, lower, query);
        if (more)
            load_keys(upper, lower, k + next, stride);
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (base + e / 2 * 8 + lane / 4 >= end)
                s[e] = LOWEST;
        weigh(state, s, scale * LOG2E);
        if (base + PAGE > end)
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int key = 0; key < 4; key++)
                    if (base + lane % 4 * 2 + key / 2 * 8 + key % 2 >= end)
                        value[half][key] = make_uint4(0, 0, 0, 0);
        add_values(state.o, value, transposed(s[0], s[1]), transposed(s[2], s[3]));
        if (more)
            load_values(value, v + next, stride);
    }
    const size_t part = (group * gridDim.x + blockIdx.x) * GROUP;
    merge(state, results + part * DIM, stats + part, scale * LOG2E);
}

extern "C" __global__ void __launch_bounds__(DIM)
    combine(const float *__restrict__ results, const float2 *__restrict__ stats, const int *__restrict__ lengths,
            __nv_bfloat16 *__restrict__ out, int kv_heads, int spans, float scale)
{
    const int head = blockIdx.x, sequence = blockIdx.y, count = (lengths[sequence] + SPAN - 1) / SPAN;
    const size_t group = static_cast<size_t>(sequence) * kv_heads + head / GROUP;
    const size_t first = group * spans * GROUP + head % GROUP;
    float top = LOWEST, total = 0.0f, value = 0.0f;
    for (int i = 0; i < count; i++)
        top = fmaxf(top, stats[first + i * GROUP].x);
#pragma unroll 4
    for (int i = 0; i < count; i++) {
        const float2 part = stats[first + i * GROUP];
        const float by = power_of_2((part.x - top) * scale * LOG2E);
        total = fmaf(part.y, by, total);
        value = fmaf(results[(first + i * GROUP) * DIM + threadIdx.x], by, value);
    }
    out[(group * GROUP + head % GROUP) * DIM + threadIdx.x] = __float2bfloat16(count > 0 ? value / total : 0.0f);
}
