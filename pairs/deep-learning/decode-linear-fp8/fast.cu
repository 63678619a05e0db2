#include <cuda_fp16.h>

#define WARPS 16
#define THREADS (32 * WARPS)
#define ROWS 16
#define COLS 8
#define SPAN 128

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

// Read once: past the first-level cache, which is left to x, and 128 bytes at a time from memory.
__device__ __forceinline__ uint4 stream(const void *from)
{
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    decode_linear(const half *__restrict__ x, const unsigned char *__restrict__ w, const float *__restrict__ scale,
                  half *__restrict__ y, int m, int n, int k)
{
    __shared__ float parts[WARPS][ROWS * COLS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.x * ROWS;
    const int upper = first + lane / 4, lower = upper + 8, token = lane / 4;
    const unsigned char *from_upper = w + static_cast<size_t>(min(upper, n - 1)) * k;
    const unsigned char *from_lower = w + static_cast<size_t>(min(lower, n - 1)) * k;
    const half *from_x = x + static_cast<size_t>(min(token, m - 1)) * k;
    const uint4 none = make_uint4(0, 0, 0, 0);
    float sum[4] = {};
#pragma unroll 1
    for (int base = warp * SPAN; base < k; base += WARPS * SPAN) {
        uint4 p[2], q[2], r[2][2];
#pragma unroll
        for (int part = 0; part < 2; part++) {
            const int at = base + 64 * part + lane % 4 * 16;
            const bool inside = at < k;
            p[part] = inside ? stream(from_upper + at) : none;
            q[part] = inside ? stream(from_lower + at) : none;
            r[part][0] = inside ? __ldg(reinterpret_cast<const uint4 *>(from_x + at)) : none;
            r[part][1] = inside ? __ldg(reinterpret_cast<const uint4 *>(from_x + at) + 1) : none;
        }
#pragma unroll
        for (int part = 0; part < 2; part++) {
            multiply_four(sum, p[part].x, q[part].x, r[part][0].x, r[part][0].y);
            multiply_four(sum, p[part].y, q[part].y, r[part][0].z, r[part][0].w);
            multiply_four(sum, p[part].z, q[part].z, r[part][1].x, r[part][1].y);
            multiply_four(sum, p[part].w, q[part].w, r[part][1].z, r[part][1].w);
        }
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        parts[warp][(lane / 4 + e / 2 * 8) * COLS + lane % 4 * 2 + e % 2] = sum[e];
    __syncthreads();
    const int row = threadIdx.x % ROWS, col = threadIdx.x / ROWS;
    if (col >= m || first + row >= n)
        return;
    float total = 0.0f;
#pragma unroll
    for (int part = 0; part < WARPS; part++)
        total += parts[part][row * COLS + col];
    y[static_cast<size_t>(col) * n + first + row] = __float2half(total * scale[first + row]);
}
