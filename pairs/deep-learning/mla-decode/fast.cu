#include <cuda_bf16.h>

#define HEADS 16
#define WIDTH 576
#define DIM 512
#define KEYS 64
#define TILES 3
#define WARPS 8
#define THREADS (32 * WARPS)
#define TILE (KEYS * WIDTH)
#define COPIES (TILE / 2 / 8 / THREADS)
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

// Where 16 bytes of a row lie: chunks are exchanged within eight rows.
template <int LENGTH> __device__ __forceinline__ int place(int row, int chunk)
{
    return row * LENGTH + (chunk ^ row & 7) * 8;
}

template <int COUNT>
__device__ __forceinline__ void copy_rows(__nv_bfloat16 *to, const __nv_bfloat16 *__restrict__ from)
{
#pragma unroll
    for (int item = threadIdx.x; item < COUNT * WIDTH / 8; item += THREADS)
        copy_async(to + place<WIDTH>(item / (WIDTH / 8), item % (WIDTH / 8)), from + item * 8, true);
}

// A thread's places in the first half of a tile: they are the same in each half of each tile.
__device__ __forceinline__ void find_places(unsigned (&places)[COPIES])
{
#pragma unroll
    for (int i = 0; i < COPIES; i++) {
        const int item = threadIdx.x + i * THREADS;
        places[i] = 2 * place<WIDTH>(item / (WIDTH / 8), item % (WIDTH / 8));
    }
}

// A half of a tile, which lies in memory in one piece; `left` counts rows from its first.
__device__ __forceinline__ void copy_half(__nv_bfloat16 *to, const __nv_bfloat16 *__restrict__ from,
                                          const unsigned (&places)[COPIES], int left)
{
#pragma unroll
    for (int i = 0; i < COPIES; i++) {
        const int item = threadIdx.x + i * THREADS;
        const bool inside = item < left * (WIDTH / 8);
        copy_async(reinterpret_cast<char *>(to) + places[i], inside ? from + item * 8 : from, inside);
    }
}

__device__ __forceinline__ void copy_tile(__nv_bfloat16 *to, const __nv_bfloat16 *__restrict__ from,
                                          const unsigned (&places)[COPIES], int left)
{
    copy_half(to, from, places, left);
    copy_half(to + TILE / 2, left > KEYS / 2 ? from + TILE / 2 : from, places, left - KEYS / 2);
}

// The scores of all heads and this warp's eight keys, in two chains of products.
__device__ __forceinline__ void score(float (&s)[4], const unsigned (&query)[WIDTH / 16][4], const __nv_bfloat16 *tile)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float odd[4] = {};
#pragma unroll
    for (int step = 0; step < WIDTH / 16; step += 2) {
        unsigned b[4];
        load_matrices(b, tile + place<WIDTH>(warp * 8 + lane % 8, 2 * step + lane / 8));
        multiply(s, query[step], b[0], b[1]);
        multiply(odd, query[step + 1], b[2], b[3]);
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        s[e] += odd[e];
}

// A tile's scores become weights in shared memory; the warps first agree on the largest of each head.
__device__ __forceinline__ void weigh(float (&s)[4], float (&largest)[2], float (&sum)[2],
                                      float (&o)[DIM / WARPS / 8][4],
                                      float (&tops)[WARPS][HEADS], __nv_bfloat16 *weights, float scale)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = fmaxf(s[2 * half], s[2 * half + 1]);
        top = fmaxf(top, __shfl_xor_sync(ALL, top, 1));
        top = fmaxf(top, __shfl_xor_sync(ALL, top, 2));
        if (lane % 4 == 0)
            tops[warp][lane / 4 + 8 * half] = top;
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = largest[half];
#pragma unroll
        for (int other = 0; other < WARPS; other++)
            top = fmaxf(top, tops[other][lane / 4 + 8 * half]);
        const float shrink = power_of_2((largest[half] - top) * scale);
        largest[half] = top;
        const float first = power_of_2((s[2 * half] - top) * scale);
        const float second = power_of_2((s[2 * half + 1] - top) * scale);
        sum[half] = fmaf(sum[half], shrink, first + second);
        *reinterpret_cast<__nv_bfloat162 *>(weights + place<KEYS>(lane / 4 + 8 * half, warp) + lane % 4 * 2) =
            __floats2bfloat162_rn(first, second);
#pragma unroll
        for (int d = 0; d < DIM / WARPS / 8; d++) {
            o[d][2 * half] *= shrink;
            o[d][2 * half + 1] *= shrink;
        }
    }
    __syncthreads();
}

// This warp's 64 features of the weighted sum.
__device__ __forceinline__ void add_values(float (&o)[DIM / WARPS / 8][4], const __nv_bfloat16 *weights,
                                           const __nv_bfloat16 *tile)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++) {
        unsigned p[4];
        load_matrices(p, weights + place<KEYS>(lane % 16, 2 * step + lane / 16));
#pragma unroll
        for (int d = 0; d < DIM / WARPS / 16; d++) {
            unsigned b[4];
            load_transposed(b,
                            tile + place<WIDTH>(16 * step + lane % 16, warp * (DIM / WARPS / 8) + 2 * d + lane / 16));
            multiply(o[2 * d], p, b[0], b[1]);
            multiply(o[2 * d + 1], p, b[2], b[3]);
        }
    }
}

// A block has a span of a sequence's latents and all heads: each latent is read once, as key and as value. Of three
// tiles in shared memory one is used and two are on their way, so that a whole one always is.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    decode(const __nv_bfloat16 *__restrict__ q, const __nv_bfloat16 *__restrict__ latents, float *__restrict__ results,
           float2 *__restrict__ stats, int n, int span, float scale)
{
    extern __shared__ __align__(128) __nv_bfloat16 room[];
    __shared__ float tops[WARPS][HEADS];
    __nv_bfloat16 *weights = room + TILES * TILE;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int begin = blockIdx.x * span, end = min(begin + span, n), tiles = (end - begin + KEYS - 1) / KEYS;
    const size_t part = static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    latents += (static_cast<size_t>(blockIdx.y) * n + begin) * WIDTH;
    copy_rows<HEADS>(room + 2 * TILE, q + static_cast<size_t>(blockIdx.y) * HEADS * WIDTH);
    commit();
    unsigned places[COPIES];
    find_places(places);
    copy_tile(room, latents, places, end - begin);
    commit();
    if (tiles > 1)
        copy_tile(room + TILE, latents + TILE, places, end - begin - KEYS);
    commit();
    wait_copies<2>();
    __syncthreads();
    unsigned query[WIDTH / 16][4];
#pragma unroll
    for (int step = 0; step < WIDTH / 16; step++)
        load_matrices(query[step], room + 2 * TILE + place<WIDTH>(lane % 16, 2 * step + lane / 16));
    float o[DIM / WARPS / 8][4] = {}, largest[2] = {LOWEST, LOWEST}, sum[2] = {};
    for (int tile = 0; tile < tiles; tile++) {
        const __nv_bfloat16 *here = room + tile % TILES * TILE;
        wait_copies<1>();
        __syncthreads();
        // Half of the tile after next; the other half is asked for between the products.
        __nv_bfloat16 *there = room + (tile + 2) % TILES * TILE;
        const __nv_bfloat16 *from = latents + static_cast<size_t>(tile + 2) * TILE;
        const int left = end - begin - (tile + 2) * KEYS;
        if (left > 0)
            copy_half(there, from, places, left);
        float s[4] = {};
        score(s, query, here);
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (begin + tile * KEYS + warp * 8 + lane % 4 * 2 + e % 2 >= end)
                s[e] = LOWEST;
        weigh(s, largest, sum, o, tops, weights, scale * LOG2E);
        if (left > 0)
            copy_half(there + TILE / 2, left > KEYS / 2 ? from + TILE / 2 : from, places, left - KEYS / 2);
        commit();
        add_values(o, weights, here);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int head = lane / 4 + 8 * half;
        sum[half] += __shfl_xor_sync(ALL, sum[half], 1);
        sum[half] += __shfl_xor_sync(ALL, sum[half], 2);
        if (lane % 4 == 0)
            tops[warp][head] = sum[half];
#pragma unroll
        for (int d = 0; d < DIM / WARPS / 8; d++)
            *reinterpret_cast<float2 *>(results + (part * HEADS + head) * DIM + warp * (DIM / WARPS) + 8 * d +
                                        lane % 4 * 2) = make_float2(o[d][2 * half], o[d][2 * half + 1]);
    }
    __syncthreads();
    if (warp == 0 && lane % 4 == 0)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int head = lane / 4 + 8 * half;
            float total = 0.0f;
#pragma unroll
            for (int other = 0; other < WARPS; other++)
                total += tops[other][head];
            stats[part * HEADS + head] = make_float2(largest[half], total);
        }
}

extern "C" __global__ void __launch_bounds__(128)
    combine(const float4 *__restrict__ results, const float2 *__restrict__ stats, __nv_bfloat162 *__restrict__ out,
            int spans, float scale)
{
    const int head = blockIdx.x;
    const size_t first = static_cast<size_t>(blockIdx.y) * spans * HEADS + head;
    float top = LOWEST, total = 0.0f;
    float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int i = 0; i < spans; i++)
        top = fmaxf(top, stats[first + i * HEADS].x);
#pragma unroll 4
    for (int i = 0; i < spans; i++) {
        const float2 part = stats[first + i * HEADS];
        const float by = power_of_2((part.x - top) * scale * LOG2E);
        const float4 more = results[(first + i * HEADS) * (DIM / 4) + threadIdx.x];
        total = fmaf(part.y, by, total);
        value = make_float4(fmaf(more.x, by, value.x), fmaf(more.y, by, value.y), fmaf(more.z, by, value.z),
                            fmaf(more.w, by, value.w));
    }
    const float by = __fdividef(1.0f, total);
    __nv_bfloat162 *to = out + ((static_cast<size_t>(blockIdx.y) * HEADS + head) * DIM + threadIdx.x * 4) / 2;
    to[0] = __floats2bfloat162_rn(value.x * by, value.y * by);
    to[1] = __floats2bfloat162_rn(value.z * by, value.w * by);
}
