#define DIM 64
#define KEYS 64
#define WARPS 4
#define THREADS (32 * WARPS)
#define QUERIES (16 * WARPS)
#define PITCH (DIM + 4)
#define STAGE (2 * KEYS * PITCH)
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

// 64 rows of a head; zeros after the last.
__device__ __forceinline__ void copy_tile(float *to, const float *__restrict__ from, int first, int n)
{
#pragma unroll
    for (int part = 0; part < KEYS * DIM / 4 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS, row = item / (DIM / 4), d = item % (DIM / 4) * 4;
        const bool inside = first + row < n;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                         static_cast<unsigned>(__cvta_generic_to_shared(to + row * PITCH + d))),
                     "l"(inside ? from + (first + row) * DIM + d : from), "r"(inside ? 16 : 0) : "memory");
    }
}

// A number as its first 11 bits and what they leave, of which tf32 keeps 11 more.
__device__ __forceinline__ void split(float x, unsigned &high, unsigned &low)
{
    high = __float_as_uint(x) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Three of the four products of the parts, the small ones first.
__device__ __forceinline__ void add_product(float (&d)[4], const unsigned (&high)[4], const unsigned (&low)[4], float first,
                                            float second)
{
    unsigned own[2], rest[2];
    split(first, own[0], rest[0]);
    split(second, own[1], rest[1]);
    multiply(d, low, own);
    multiply(d, high, rest);
    multiply(d, high, own);
}

// Sixteen queries times the keys of a tile.
__device__ __forceinline__ void score(float (&s)[8][4], const float (&query)[8][4], const float *keys)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        unsigned high[4], low[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            split(query[i][e], high[e], low[e]);
#pragma unroll
        for (int t = 0; t < 8; t++) {
            const float *key = keys + (8 * t + lane / 4) * PITCH + 8 * i + lane % 4;
            add_product(s[t], high, low, key[0], key[4]);
        }
    }
}

// Scores become weights; of a thread's two rows the largest score and the sum of weights are kept up.
__device__ __forceinline__ void weigh(float (&s)[8][4], float (&largest)[2], float (&total)[2], float (&shrink)[2],
                                      int left, float scale)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float top = largest[half];
#pragma unroll
        for (int t = 0; t < 8; t++)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                s[t][e] = 8 * t + e % 2 < left ? s[t][e] * scale : LOWEST;
                top = fmaxf(top, s[t][e]);
            }
        top = fmaxf(top, __shfl_xor_sync(ALL, top, 1));
        top = fmaxf(top, __shfl_xor_sync(ALL, top, 2));
        shrink[half] = __expf(largest[half] - top);
        largest[half] = top;
        total[half] *= shrink[half];
#pragma unroll
        for (int t = 0; t < 8; t++)
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                s[t][e] = __expf(s[t][e] - top);
                total[half] += s[t][e];
            }
    }
}

// sum = sum * shrink + weights * values. A thread's neighbouring weights stand for the keys q and q + 4 of a product, so
// values come in that order. Tensor cores may cut off bits where they add: a tile is summed alone, then added.
__device__ __forceinline__ void add_values(float (&sum)[8][4], const float (&weights)[8][4], const float (&shrink)[2],
                                           const float *values)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float part[4][4] = {};
#pragma unroll
        for (int t = 0; t < 8; t++) {
            unsigned high[4], low[4];
#pragma unroll
            for (int e = 0; e < 4; e++)
                split(weights[t][e % 2 * 2 + e / 2], high[e], low[e]);
            const float *value = values + (8 * t + lane % 4 * 2) * PITCH + half * 32 + lane / 4;
#pragma unroll
            for (int s = 0; s < 4; s++)
                add_product(part[s], high, low, value[8 * s], value[8 * s + PITCH]);
        }
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[4 * half + s][e] = fmaf(sum[4 * half + s][e], shrink[e / 2], part[s][e]);
    }
}

// A warp has sixteen queries in registers; tiles of keys and values pass by in shared memory, the next on its way.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    attention(const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v,
              float *__restrict__ out, int n, float scale)
{
    extern __shared__ __align__(16) float stages[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = blockIdx.x * QUERIES + warp * 16 + lane / 4, tiles = (n + KEYS - 1) / KEYS;
    const size_t head = static_cast<size_t>(blockIdx.y) * n * DIM;
    float query[8][4], sum[8][4] = {}, largest[2] = {LOWEST, LOWEST}, total[2] = {};
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int at = row + e % 2 * 8;
            query[i][e] = at < n ? q[head + at * DIM + 8 * i + e / 2 * 4 + lane % 4] : 0.0f;
        }
    copy_tile(stages, k + head, 0, n);
    copy_tile(stages + KEYS * PITCH, v + head, 0, n);
    asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll 1
    for (int tile = 0; tile < tiles; tile++) {
        const float *keys = stages + tile % 2 * STAGE;
        float *other = stages + (tile + 1) % 2 * STAGE;
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        if (tile + 1 < tiles) {
            copy_tile(other, k + head, (tile + 1) * KEYS, n);
            copy_tile(other + KEYS * PITCH, v + head, (tile + 1) * KEYS, n);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        float s[8][4] = {}, shrink[2];
        score(s, query, keys);
        weigh(s, largest, total, shrink, n - tile * KEYS - lane % 4 * 2, scale);
        add_values(sum, s, shrink, keys + KEYS * PITCH);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float all = total[half];
        all += __shfl_xor_sync(ALL, all, 1);
        all += __shfl_xor_sync(ALL, all, 2);
        const float share = 1.0f / all;
        if (row + 8 * half < n)
#pragma unroll
            for (int s = 0; s < 8; s++)
                *reinterpret_cast<float2 *>(out + head + (row + 8 * half) * DIM + 8 * s + lane % 4 * 2) =
                    make_float2(sum[s][2 * half] * share, sum[s][2 * half + 1] * share);
    }
}
