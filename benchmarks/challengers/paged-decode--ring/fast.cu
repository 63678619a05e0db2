#include <cuda_bf16.h>

#define DIM 128
#define PAGE 16
#define GROUP 8
#define WARPS 4
#define THREADS (32 * WARPS)
#define SPAN 256
#define STAGES 2
#define PIECES 16
#define PITCH (DIM + 4)
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

// The warps' states become one, which goes to the block's part of the results. `sums` is the room of the pages.
__device__ __forceinline__ void merge(const State &state, float *sums, float *results, float2 *stats, float scale)
{
    __shared__ float2 tops[WARPS][GROUP];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        float sum = state.sum[e];
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2)
            sum += __shfl_xor_sync(ALL, sum, offset);
        const int query = lane % 4 * 2 + e;
        if (lane < 4)
            tops[warp][query] = make_float2(state.largest[e], sum);
        float *own = sums + (warp * GROUP + query) * PITCH + lane / 4 * 8;
#pragma unroll
        for (int i = 0; i < 8; i += 4) {
            *reinterpret_cast<float4 *>(own + i) =
                make_float4(state.o[i][e], state.o[i + 1][e], state.o[i + 2][e], state.o[i + 3][e]);
            *reinterpret_cast<float4 *>(own + 64 + i) =
                make_float4(state.o[i][e + 2], state.o[i + 1][e + 2], state.o[i + 2][e + 2], state.o[i + 3][e + 2]);
        }
    }
    __syncthreads();
    for (int query = 0; query < GROUP; query++) {
        float top = LOWEST, total = 0.0f, value = 0.0f;
#pragma unroll
        for (int other = 0; other < WARPS; other++)
            top = fmaxf(top, tops[other][query].x);
#pragma unroll
        for (int other = 0; other < WARPS; other++) {
            const float by = power_of_2((tops[other][query].x - top) * scale);
            total = fmaf(tops[other][query].y, by, total);
            value = fmaf(sums[(other * GROUP + query) * PITCH + threadIdx.x], by, value);
        }
        results[query * DIM + threadIdx.x] = value;
        if (threadIdx.x == 0)
            stats[query] = make_float2(top, total);
    }
}

// 16 bytes to shared memory in the background.
__device__ __forceinline__ void copy_async(uint4 *to, const uint4 *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
}

// A lane's pieces of the keys and values of a page, to a place that no other lane reads.
__device__ __forceinline__ void fetch(uint4 *slot, const uint4 *__restrict__ k, const uint4 *__restrict__ v, int page,
                                      int head, int kv_heads, bool inside)
{
    const int lane = threadIdx.x % 32, stride = kv_heads * (DIM / 8);
    if (inside) {
        const size_t first = (static_cast<size_t>(page) * PAGE * kv_heads + head) * (DIM / 8);
#pragma unroll
        for (int part = 0; part < 4; part++) {
            const uint4 *from = k + first + part * 4 + lane % 4;
            copy_async(slot + part * 32, from + lane / 4 * stride);
            copy_async(slot + (4 + part) * 32, from + (lane / 4 + 8) * stride);
        }
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int key = 0; key < 4; key++)
                copy_async(slot + (8 + half * 4 + key) * 32,
                           v + first + (lane % 4 * 2 + key / 2 * 8 + key % 2) * stride + half * 8 + lane / 4);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// A block has a span of a sequence's keys and eight queries that share them; a warp takes a page at a time, keys as
// left factor of the scores and values, transposed, as left factor of the sums. The next pages are on their way to
// shared memory meanwhile; each lane reads only what it copied itself, so that warps never wait for each other.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    decode(const uint4 *__restrict__ q, const uint4 *__restrict__ k, const uint4 *__restrict__ v,
           const int *__restrict__ table, const int *__restrict__ lengths, float *__restrict__ results,
           float2 *__restrict__ stats, int max_pages, float scale)
{
    extern __shared__ uint4 room[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int head = blockIdx.y, kv_heads = gridDim.y, sequence = blockIdx.z, begin = blockIdx.x * SPAN;
    // A lane knows one page of the span.
    const int pages = table[sequence * max_pages + min(begin / PAGE + lane % (SPAN / PAGE), max_pages - 1)];
    const int length = lengths[sequence], end = min(begin + SPAN, length);
    if (begin >= length)
        return;
    const size_t group = static_cast<size_t>(sequence) * kv_heads + head;
    uint4 *own = room + warp * (STAGES * PIECES * 32) + lane;
    const auto fetch_at = [&](int base, int stage) {
        const int page = __shfl_sync(ALL, pages, (base - begin) / PAGE % 32);
        fetch(own + stage * (PIECES * 32), k, v, page, head, kv_heads, base < end);
    };
#pragma unroll
    for (int s = 0; s < STAGES; s++)
        fetch_at(begin + (s * WARPS + warp) * PAGE, s);
    uint4 query[4];
#pragma unroll
    for (int part = 0; part < 4; part++)
        query[part] = q[(group * GROUP + lane / 4) * (DIM / 8) + part * 4 + lane % 4];
    State state = {{LOWEST, LOWEST}, {}, {}};
    int stage = 0;
#pragma unroll 1
    for (int base = begin + warp * PAGE; base < end; base += WARPS * PAGE) {
        const uint4 *slot = own + stage * (PIECES * 32);
        uint4 upper[4], lower[4], value[2][4];
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
#pragma unroll
        for (int part = 0; part < 4; part++) {
            upper[part] = slot[part * 32];
            lower[part] = slot[(4 + part) * 32];
        }
        float s[4] = {};
        score(s, upper, lower, query);
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int key = 0; key < 4; key++)
                value[half][key] = slot[(8 + half * 4 + key) * 32];
        fetch_at(base + STAGES * WARPS * PAGE, stage);
        stage = (stage + 1) % STAGES;
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
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    const size_t part = (group * gridDim.x + blockIdx.x) * GROUP;
    merge(state, reinterpret_cast<float *>(room), results + part * DIM, stats + part, scale * LOG2E);
}

extern "C" __global__ void __launch_bounds__(DIM)
    combine(const float *__restrict__ results, const float2 *__restrict__ stats, const int *__restrict__ lengths,
            __nv_bfloat16 *__restrict__ out, int kv_heads, int spans, float scale)
{
    const int head = blockIdx.x, sequence = blockIdx.y, count = (lengths[sequence] + SPAN - 1) / SPAN;
    const size_t group = static_cast<size_t>(sequence) * kv_heads + head / GROUP;
    const size_t first = group * spans * GROUP + head % GROUP;
    float top = LOWEST, total = 0.0f, value = 0.0f;
#pragma unroll 8
    for (int i = 0; i < count; i++)
        top = fmaxf(top, stats[first + i * GROUP].x);
#pragma unroll 8
    for (int i = 0; i < count; i++) {
        const float2 part = stats[first + i * GROUP];
        const float by = power_of_2((part.x - top) * scale * LOG2E);
        total = fmaf(part.y, by, total);
        value = fmaf(results[(first + i * GROUP) * DIM + threadIdx.x], by, value);
    }
    out[(group * GROUP + head % GROUP) * DIM + threadIdx.x] = __float2bfloat16(count > 0 ? value / total : 0.0f);
}
