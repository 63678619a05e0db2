#include <cuda_fp16.h>

#define WARPS 4
#define THREADS (32 * WARPS)
#define ROWS 32
#define COLS 8
#define SPAN 64

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8-bit floats as two pairs of halves.
__device__ __forceinline__ uint2 decode(unsigned word)
{
    uint2 pairs;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pairs.x) : "h"(static_cast<unsigned short>(word)));
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pairs.y) : "h"(static_cast<unsigned short>(word >> 16)));
    return pairs;
}

// Four neighbouring features of two rows of weights and of a token: one product of depth 16 for the warp.
__device__ __forceinline__ void multiply_four(float (&sum)[4], unsigned upper, unsigned lower, unsigned x0, unsigned x1)
{
    const uint2 p = decode(upper), q = decode(lower);
    const unsigned both[4] = {p.x, q.x, p.y, q.y};
    multiply(sum, both, x0, x1);
}

// 32 rows of the weights a block, twice what tensor cores take at once: a piece of the tokens is read once for both
// halves, and all blocks of 28672 rows are resident at once, none is left for a last wave.
extern "C" __global__ void __launch_bounds__(THREADS, 7)
    decode_linear(const half *__restrict__ x, const unsigned char *__restrict__ w, const float *__restrict__ scale,
                  half *__restrict__ y, int m, int n, int k)
{
    __shared__ float parts[WARPS][ROWS * COLS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.x * ROWS, token = lane / 4;
    const unsigned char *from[4];
#pragma unroll
    for (int eight = 0; eight < 4; eight++)
        from[eight] = w + static_cast<size_t>(min(first + 8 * eight + lane / 4, n - 1)) * k;
    const half *from_x = x + static_cast<size_t>(min(token, m - 1)) * k;
    const uint4 none = make_uint4(0, 0, 0, 0);
    float sum[2][4] = {};
#pragma unroll 1
    for (int base = warp * 2 * SPAN; base < k; base += WARPS * 2 * SPAN) {
        uint4 p[2][4], r[2];
#pragma unroll
        for (int part = 0; part < 2; part++) {
            const int at = base + SPAN * part + lane % 4 * 16;
#pragma unroll
            for (int eight = 0; eight < 4; eight++)
                p[part][eight] = at < k ? __ldcs(reinterpret_cast<const uint4 *>(from[eight] + at)) : none;
        }
        // The tokens lie in the first level of cache: they are read when the weights have come.
#pragma unroll
        for (int part = 0; part < 2; part++) {
            const int at = base + SPAN * part + lane % 4 * 16;
#pragma unroll
            for (int i = 0; i < 2; i++)
                r[i] = at < k ? __ldg(reinterpret_cast<const uint4 *>(from_x + at) + i) : none;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const uint4 upper = p[part][2 * half], lower = p[part][2 * half + 1];
                multiply_four(sum[half], upper.x, lower.x, r[0].x, r[0].y);
                multiply_four(sum[half], upper.y, lower.y, r[0].z, r[0].w);
                multiply_four(sum[half], upper.z, lower.z, r[1].x, r[1].y);
                multiply_four(sum[half], upper.w, lower.w, r[1].z, r[1].w);
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            parts[warp][(16 * half + lane / 4 + e / 2 * 8) * COLS + lane % 4 * 2 + e % 2] = sum[half][e];
    __syncthreads();
    for (int item = threadIdx.x; item < ROWS * COLS; item += THREADS) {
        const int row = item % ROWS, col = item / ROWS;
        if (col >= m || first + row >= n)
            continue;
        float total = 0.0f;
#pragma unroll
        for (int part = 0; part < WARPS; part++)
            total += parts[part][row * COLS + col];
        y[static_cast<size_t>(col) * n + first + row] = __float2half(total * scale[first + row]);
    }
}
