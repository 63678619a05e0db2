#include <cuda_bf16.h>

#define WARPS 4
#define THREADS (32 * WARPS)
#define ROWS 16
#define COLS 8
#define SPAN 64

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint4 load16(const __nv_bfloat16 *__restrict__ from, bool inside)
{
    return inside ? __ldcs(reinterpret_cast<const uint4 *>(from)) : make_uint4(0, 0, 0, 0);
}

// A lane takes 8 neighbouring features of a row at a time. Both factors take the features in the same order, so
// that no value has to change lanes.
__device__ __forceinline__ void multiply_eight(float (&sum)[4], uint4 upper, uint4 lower, uint4 x)
{
    const unsigned first[4] = {upper.x, lower.x, upper.y, lower.y}, second[4] = {upper.z, lower.z, upper.w, lower.w};
    multiply(sum, first, x.x, x.y);
    multiply(sum, second, x.z, x.w);
}

// 16 rows of the weights a block, whose warps share the features. The weights are read once, straight to registers.
// Small blocks, eight to a multiprocessor: those of 16384 rows are resident all at once, none is left for a last wave.
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    decode_linear(const __nv_bfloat16 *__restrict__ x, const __nv_bfloat16 *__restrict__ w,
                  __nv_bfloat16 *__restrict__ y, int m, int n, int k)
{
    __shared__ float parts[WARPS][ROWS * COLS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.x * ROWS;
    const int upper = first + lane / 4, lower = upper + 8, token = lane / 4;
    const __nv_bfloat16 *from_upper = w + static_cast<size_t>(min(upper, n - 1)) * k;
    const __nv_bfloat16 *from_lower = w + static_cast<size_t>(min(lower, n - 1)) * k;
    const __nv_bfloat16 *from_x = x + static_cast<size_t>(min(token, m - 1)) * k;
    float sum[4] = {};
#pragma unroll 1
    for (int base = warp * SPAN; base < k; base += WARPS * SPAN) {
        uint4 p[2], q[2], r[2];
#pragma unroll
        for (int part = 0; part < 2; part++) {
            const int at = base + 32 * part + lane % 4 * 8;
            p[part] = load16(from_upper + at, at < k);
            q[part] = load16(from_lower + at, at < k);
            r[part] = at < k ? __ldg(reinterpret_cast<const uint4 *>(from_x + at)) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int part = 0; part < 2; part++)
            multiply_eight(sum, p[part], q[part], r[part]);
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
    y[static_cast<size_t>(col) * n + first + row] = __float2bfloat16(total);
}
