// Blocks are all resident and share the pages evenly: each has one head of the keys and a run of the batch's pages,
// which may be of several sequences. A warp's keys are asked for again as soon as the last ones are multiplied, its
// values likewise, so that half a page is always under way.
#include <cuda_bf16.h>

#define DIM 128
#define PAGE 16
#define GROUP 8
#define WARPS 4
#define THREADS (32 * WARPS)
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
    __syncthreads();
}

__device__ __forceinline__ int pages_of(int length)
{
    return (length + PAGE - 1) / PAGE;
}

// The pages of the sequences before COUNT; the same for all lanes.
__device__ __forceinline__ int pages_before(const int *__restrict__ lengths, int count)
{
    int sum = 0;
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < count; i += 32)
        sum += pages_of(lengths[i]);
    return __reduce_add_sync(ALL, sum);
}

// How many pages a block takes of TOTAL.
__device__ __forceinline__ int share_of(int total, int blocks)
{
    return max(WARPS, (total + blocks - 1) / blocks);
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

// A warp takes a page at a time, keys as left factor of the scores and values, transposed, as left factor of the sums.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    decode(const uint4 *__restrict__ q, const uint4 *__restrict__ k, const uint4 *__restrict__ v,
           const int *__restrict__ table, const int *__restrict__ lengths, float *__restrict__ results,
           float2 *__restrict__ stats, int sequences, int max_pages, float scale)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int head = blockIdx.x, kv_heads = gridDim.x, stride = kv_heads * (DIM / 8), blocks = gridDim.y;
    // The table is on its way to the L2 while the lengths are.
    const int line = (blockIdx.y * kv_heads + head) * THREADS + threadIdx.x;
    if (line < (sequences * max_pages + 31) / 32)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(table + line * 32));
    const int total = pages_before(lengths, sequences), share = share_of(total, blocks);
    int at = blockIdx.y * share;
    const int stop = min(at + share, total);
    // The sequence of the first page, and how many pages lie before it.
    int sequence = 0, before = 0;
    for (int base = 0; at < stop && base < sequences; base += 32) {
        const int own = base + lane < sequences ? pages_of(lengths[base + lane]) : 0;
        int until = own;
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const int other = __shfl_up_sync(ALL, until, offset);
            if (lane >= offset)
                until += other;
        }
        const unsigned beyond = __ballot_sync(ALL, before + until > at);
        if (beyond) {
            const int first = __ffs(beyond) - 1;
            sequence = base + first;
            before += __shfl_sync(ALL, until - own, first);
            break;
        }
        before += __shfl_sync(ALL, until, 31);
    }
    for (; at < stop; sequence++) {
        const int length = lengths[sequence], count = pages_of(length);
        const int last = min(count, stop - before);
        int number = at - before + warp;
        const int *pages = table + static_cast<size_t>(sequence) * max_pages;
        before += count;
        if (count == 0)
            continue;
        at = min(before, stop);
        const size_t group = static_cast<size_t>(sequence) * kv_heads + head;
        State state = {{LOWEST, LOWEST}, {}, {}};
        uint4 upper[4], lower[4], value[2][4], query[4];
        if (number < last) {
            const size_t first = page_at(pages[number], head, kv_heads);
            load_keys(upper, lower, k + first, stride);
            load_values(value, v + first, stride);
        }
        int later = pages[min(number + WARPS, count - 1)];
#pragma unroll
        for (int part = 0; part < 4; part++)
            query[part] = q[(group * GROUP + lane / 4) * (DIM / 8) + part * 4 + lane % 4];
#pragma unroll 1
        for (; number < last; number += WARPS) {
            const bool more = number + WARPS < last;
            const size_t next = page_at(later, head, kv_heads);
            later = pages[min(number + 2 * WARPS, count - 1)];
            const int base = number * PAGE;
            float s[4] = {};
            score(s, upper, lower, query);
            if (more)
                load_keys(upper, lower, k + next, stride);
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (base + e / 2 * 8 + lane / 4 >= length)
                    s[e] = LOWEST;
            weigh(state, s, scale * LOG2E);
            if (base + PAGE > length)
#pragma unroll
                for (int half = 0; half < 2; half++)
#pragma unroll
                    for (int key = 0; key < 4; key++)
                        if (base + lane % 4 * 2 + key / 2 * 8 + key % 2 >= length)
                            value[half][key] = make_uint4(0, 0, 0, 0);
            add_values(state.o, value, transposed(s[0], s[1]), transposed(s[2], s[3]));
            if (more)
                load_values(value, v + next, stride);
        }
        // Along the runs either the block or the sequence goes up: no other pair has this sum.
        const size_t part = (static_cast<size_t>(head) * (blocks + sequences) + blockIdx.y + sequence) * GROUP;
        merge(state, results + part * DIM, stats + part, scale * LOG2E);
    }
}

extern "C" __global__ void __launch_bounds__(DIM)
    combine(const float *__restrict__ results, const float2 *__restrict__ stats, const int *__restrict__ lengths,
            __nv_bfloat16 *__restrict__ out, int sequences, int blocks, float scale)
{
    const int head = blockIdx.x, sequence = blockIdx.y;
    const int share = share_of(pages_before(lengths, sequences), blocks);
    const int begin = pages_before(lengths, sequence), count = pages_of(lengths[sequence]);
    const int low = begin / share, parts = count > 0 ? (begin + count - 1) / share - low + 1 : 0;
    const size_t slot = static_cast<size_t>(head / GROUP) * (blocks + sequences) + low + sequence;
    const size_t first = slot * GROUP + head % GROUP;
    float top = LOWEST, total = 0.0f, value = 0.0f;
#pragma unroll 4
    for (int i = 0; i < parts; i++)
        top = fmaxf(top, stats[first + i * GROUP].x);
#pragma unroll 4
    for (int i = 0; i < parts; i++) {
        const float2 part = stats[first + i * GROUP];
        const float by = power_of_2((part.x - top) * scale * LOG2E);
        total = fmaf(part.y, by, total);
        value = fmaf(results[(first + i * GROUP) * DIM + threadIdx.x], by, value);
    }
    out[(static_cast<size_t>(sequence) * gridDim.x + head) * DIM + threadIdx.x] =
        __float2bfloat16(parts > 0 ? value / total : 0.0f);
}
