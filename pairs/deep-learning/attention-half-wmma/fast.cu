#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda;

#define DIM 64
#define KEYS 64
#define WARPS 8
#define THREADS (32 * WARPS)
#define QUERIES (16 * WARPS)
#define PITCH 72
#define TILE (KEYS * PITCH)
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> Sum;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> Left;

__device__ __forceinline__ void copy_rows(half *to, const half *__restrict__ from, int first, int count, int n)
{
    for (int item = threadIdx.x; item < count * DIM / 8; item += THREADS) {
        const int row = item / (DIM / 8), d = item % (DIM / 8) * 8;
        const bool inside = first + row < n;
        __pipeline_memcpy_async(to + row * PITCH + d, inside ? from + (first + row) * DIM + d : from, 16,
                                inside ? 0 : 16);
    }
}

__device__ __forceinline__ void row_indices(Sum &rows, float *room)
{
    const int lane = threadIdx.x % 32;
    for (int item = lane; item < 256; item += 32)
        room[item / 16 * PITCH + item % 16] = (float)(item / 16);
    __syncwarp();
    wmma::load_matrix_sync(rows, room, PITCH, wmma::mem_row_major);
    __syncwarp();
}

__device__ __forceinline__ void score_tile(float *scores, const Left *queries, const half *keys)
{
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
        Sum sum;
        wmma::fill_fragment(sum, 0.0f);
#pragma unroll
        for (int d = 0; d < DIM / 16; d++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
            wmma::load_matrix_sync(right, keys + j * 16 * PITCH + d * 16, PITCH);
            wmma::mma_sync(sum, queries[d], right, sum);
        }
        wmma::store_matrix_sync(scores + j * 16, sum, PITCH, wmma::mem_row_major);
    }
    __syncwarp();
}

__device__ __forceinline__ float weigh(const float *scores, half *weights, float &largest, float &total, int base,
                                       int n, float scale)
{
    const int row = threadIdx.x % 32 / 2, first = threadIdx.x % 2 * 4;
    float4 held[KEYS / 8];
    float both = largest;
#pragma unroll
    for (int i = 0; i < KEYS / 8; i++) {
        const int at = i * 8 + first;
        float4 s = *reinterpret_cast<const float4 *>(scores + row * PITCH + at);
        s.x = base + at < n ? s.x * scale : LOWEST;
        s.y = base + at + 1 < n ? s.y * scale : LOWEST;
        s.z = base + at + 2 < n ? s.z * scale : LOWEST;
        s.w = base + at + 3 < n ? s.w * scale : LOWEST;
        both = fmaxf(both, fmaxf(fmaxf(s.x, s.y), fmaxf(s.z, s.w)));
        held[i] = s;
    }
    both = fmaxf(both, __shfl_xor_sync(ALL, both, 1));
    const float shrink = __expf(largest - both);
    largest = both;
    total *= shrink;
#pragma unroll
    for (int i = 0; i < KEYS / 8; i++) {
        const float4 p = make_float4(__expf(held[i].x - both), __expf(held[i].y - both), __expf(held[i].z - both),
                                     __expf(held[i].w - both));
        total += (p.x + p.y) + (p.z + p.w);
        half2 *to = reinterpret_cast<half2 *>(weights + row * PITCH + i * 8 + first);
        to[0] = __floats2half2_rn(p.x, p.y);
        to[1] = __floats2half2_rn(p.z, p.w);
    }
    return shrink;
}

__device__ __forceinline__ void scale_rows(Sum *sums, const Sum &rows, float *factors, float mine)
{
    const int lane = threadIdx.x % 32;
    if (lane % 2 == 0)
        factors[lane / 2] = mine;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < rows.num_elements; i++) {
        const float by = factors[(int)rows.x[i]];
#pragma unroll
        for (int j = 0; j < DIM / 16; j++)
            sums[j].x[i] *= by;
    }
    __syncwarp();
}

__device__ __forceinline__ void add_values(Sum *sums, const half *weights, const half *values)
{
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++) {
        Left left;
        wmma::load_matrix_sync(left, weights + k * 16, PITCH);
#pragma unroll
        for (int j = 0; j < DIM / 16; j++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
            wmma::load_matrix_sync(right, values + k * 16 * PITCH + j * 16, PITCH);
            wmma::mma_sync(sums[j], left, right, sums[j]);
        }
    }
    __syncwarp();
}

__device__ __forceinline__ void store_rows(half *__restrict__ out, const Sum *sums, float *room, int first, int n)
{
#pragma unroll
    for (int j = 0; j < DIM / 16; j++)
        wmma::store_matrix_sync(room + j * 16, sums[j], PITCH, wmma::mem_row_major);
    __syncwarp();
    for (int item = threadIdx.x % 32; item < 16 * DIM / 2; item += 32) {
        const int row = item / (DIM / 2), d = item % (DIM / 2) * 2;
        if (first + row < n)
            *reinterpret_cast<half2 *>(out + (first + row) * DIM + d) =
                __floats2half2_rn(room[row * PITCH + d], room[row * PITCH + d + 1]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    attention(const half *__restrict__ q, const half *__restrict__ k, const half *__restrict__ v,
              half *__restrict__ out, int n, float scale)
{
    extern __shared__ __align__(128) half room[];
    const int warp = threadIdx.x / 32;
    half *keys = room, *values = room + 2 * TILE;
    half *weights = room + 4 * TILE + warp * 16 * PITCH;
    float *scores = reinterpret_cast<float *>(room + 4 * TILE + QUERIES * PITCH) + warp * 16 * PITCH;
    float *factors = reinterpret_cast<float *>(room + 4 * TILE + 3 * QUERIES * PITCH) + warp * 16;
    const int first = blockIdx.x * QUERIES;
    const size_t head = (size_t)blockIdx.y * n * DIM;

    copy_rows(room + 4 * TILE, q + head, first, QUERIES, n);
    copy_rows(keys, k + head, 0, KEYS, n);
    copy_rows(values, v + head, 0, KEYS, n);
    __pipeline_commit();
    Sum rows, sums[DIM / 16];
    row_indices(rows, scores);
#pragma unroll
    for (int j = 0; j < DIM / 16; j++)
        wmma::fill_fragment(sums[j], 0.0f);
    __pipeline_wait_prior(0);
    __syncthreads();
    Left queries[DIM / 16];
#pragma unroll
    for (int d = 0; d < DIM / 16; d++)
        wmma::load_matrix_sync(queries[d], weights + d * 16, PITCH);
    __syncwarp();

    float largest = LOWEST, total = 0.0f;
    int stage = 0;
    for (int base = 0; base < n; base += KEYS) {
        __pipeline_wait_prior(0);
        __syncthreads();
        if (base + KEYS < n) {
            copy_rows(keys + (stage ^ 1) * TILE, k + head, base + KEYS, KEYS, n);
            copy_rows(values + (stage ^ 1) * TILE, v + head, base + KEYS, KEYS, n);
        }
        __pipeline_commit();
        score_tile(scores, queries, keys + stage * TILE);
        const float shrink = weigh(scores, weights, largest, total, base, n, scale);
        scale_rows(sums, rows, factors, shrink);
        add_values(sums, weights, values + stage * TILE);
        stage ^= 1;
    }
    total += __shfl_xor_sync(ALL, total, 1);
    scale_rows(sums, rows, factors, 1.0f / total);
    store_rows(out + head, sums, scores, first + warp * 16, n);
}
