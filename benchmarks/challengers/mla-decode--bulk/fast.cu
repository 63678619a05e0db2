#include <cuda_bf16.h>

#define HEADS 16
#define WIDTH 576
#define DIM 512
#define KEYS 64
#define TILES 3
#define PITCH (WIDTH + 8)
#define WARPS 8
#define THREADS (32 * WARPS)
#define TILE (KEYS * PITCH)
#define LOG2E 1.4426950408889634f
#define LOWEST -1.0e30f
#define ALL 0xffffffffu

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
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

// Where 16 bytes of a row of weights lie: chunks are exchanged within eight rows.
template <int LENGTH> __device__ __forceinline__ int place(int row, int chunk)
{
    return row * LENGTH + (chunk ^ row & 7) * 8;
}

// Rows of a tile, whose odd pitch in 16 bytes spreads them over the banks. A warp starts the copy of one row a lane;
// rows that are not there become zero.
__device__ __forceinline__ void copy_tile(__nv_bfloat16 *to, const __nv_bfloat16 *__restrict__ from, int rows,
                                          unsigned long long *ready)
{
    rows = min(rows, KEYS);
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(ready)),
                         "r"(rows * WIDTH * 2)
                         : "memory");
        __syncwarp();
        for (int row = threadIdx.x; row < rows; row += 32)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                             shared_address(to + row * PITCH)),
                         "l"(from + static_cast<size_t>(row) * WIDTH), "n"(WIDTH * 2), "r"(shared_address(ready))
                         : "memory");
    }
    for (int item = threadIdx.x; item < (KEYS - rows) * (WIDTH / 8); item += THREADS)
        *reinterpret_cast<uint4 *>(to + (rows + item / (WIDTH / 8)) * PITCH + item % (WIDTH / 8) * 8) =
            make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ void wait(unsigned long long *ready, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(ready)), "r"(parity)
                     : "memory");
}

// The scores of all heads and this warp's eight keys, in two chains of products.
__device__ __forceinline__ void score(float (&s)[4], const unsigned (&query)[WIDTH / 16][4], const __nv_bfloat16 *tile)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float odd[4] = {};
#pragma unroll
    for (int step = 0; step < WIDTH / 16; step += 2) {
        unsigned b[4];
        load_matrices(b, tile + (warp * 8 + lane % 8) * PITCH + (2 * step + lane / 8) * 8);
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
                            tile + (16 * step + lane % 16) * PITCH + warp * (DIM / WARPS) + 16 * d + lane / 16 * 8);
            multiply(o[2 * d], p, b[0], b[1]);
            multiply(o[2 * d + 1], p, b[2], b[3]);
        }
    }
}

// A block has a span of a sequence's latents and all heads: each latent is read once, as key and as value. Of three
// tiles in shared memory one is used and two are on their way by bulk copies, which cost a warp two instructions.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    decode(const __nv_bfloat16 *__restrict__ q, const __nv_bfloat16 *__restrict__ latents, float *__restrict__ results,
           float2 *__restrict__ stats, int n, int span, float scale)
{
    extern __shared__ __align__(128) __nv_bfloat16 room[];
    __shared__ float tops[WARPS][HEADS];
    __shared__ unsigned long long ready[TILES];
    __nv_bfloat16 *weights = room + TILES * TILE;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int begin = blockIdx.x * span, end = min(begin + span, n), tiles = (end - begin + KEYS - 1) / KEYS;
    const size_t part = static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    latents += static_cast<size_t>(blockIdx.y) * n * WIDTH;
    if (threadIdx.x == 0) {
        for (int tile = 0; tile < TILES; tile++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&ready[tile])) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    for (int tile = 0; tile < 2 && tile < tiles; tile++)
        copy_tile(room + tile * TILE, latents + static_cast<size_t>(begin + tile * KEYS) * WIDTH,
                  end - begin - tile * KEYS, &ready[tile]);
    const uint4 *queries = reinterpret_cast<const uint4 *>(q + static_cast<size_t>(blockIdx.y) * HEADS * WIDTH);
    for (int item = threadIdx.x; item < HEADS * WIDTH / 8; item += THREADS)
        *reinterpret_cast<uint4 *>(room + 2 * TILE + item / (WIDTH / 8) * PITCH + item % (WIDTH / 8) * 8) = queries[item];
    __syncthreads();
    unsigned query[WIDTH / 16][4];
#pragma unroll
    for (int step = 0; step < WIDTH / 16; step++)
        load_matrices(query[step], room + 2 * TILE + lane % 16 * PITCH + (2 * step + lane / 16) * 8);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    float o[DIM / WARPS / 8][4] = {}, largest[2] = {LOWEST, LOWEST}, sum[2] = {};
    for (int tile = 0; tile < tiles; tile++) {
        const __nv_bfloat16 *here = room + tile % TILES * TILE;
        wait(&ready[tile % TILES], tile / TILES % 2);
        __syncthreads();
        if (tile + 2 < tiles)
            copy_tile(room + (tile + 2) % TILES * TILE, latents + static_cast<size_t>(begin + (tile + 2) * KEYS) * WIDTH,
                      end - begin - (tile + 2) * KEYS, &ready[(tile + 2) % TILES]);
        float s[4] = {};
        score(s, query, here);
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (begin + tile * KEYS + warp * 8 + lane % 4 * 2 + e % 2 >= end)
                s[e] = LOWEST;
        weigh(s, largest, sum, o, tops, weights, scale * LOG2E);
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
