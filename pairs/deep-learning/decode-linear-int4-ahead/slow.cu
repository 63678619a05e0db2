#include <cuda_fp16.h>

#define WARPS 8
#define THREADS (32 * WARPS)
#define ROWS 16
#define COLS 8
#define GROUP 128

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two 4-bit weights, less 8, as halves. In the last bits of 1024 a weight is 1024 more; four bits higher it counts
// 16 times.
__device__ __forceinline__ half2 low_pair(unsigned word)
{
    unsigned bits;
    asm("lop3.b32 %0, %1, 0x000f000f, 0x64006400, 0xea;" : "=r"(bits) : "r"(word));
    return __hsub2(*reinterpret_cast<half2 *>(&bits), __floats2half2_rn(1032.0f, 1032.0f));
}

__device__ __forceinline__ half2 high_pair(unsigned word)
{
    unsigned bits;
    asm("lop3.b32 %0, %1, 0x00f000f0, 0x64006400, 0xea;" : "=r"(bits) : "r"(word));
    return __hfma2(*reinterpret_cast<half2 *>(&bits), __floats2half2_rn(0.0625f, 0.0625f),
                   __floats2half2_rn(-72.0f, -72.0f));
}

__device__ __forceinline__ unsigned bits_of(half2 pair)
{
    return *reinterpret_cast<const unsigned *>(&pair);
}

// Eight neighbouring features of two rows of weights and of a token, in the order 0 4, 1 5, 2 6, 3 7.
__device__ __forceinline__ void multiply_eight(float (&sum)[4], unsigned upper, unsigned lower, uint4 x)
{
    const unsigned first[4] = {bits_of(low_pair(upper)), bits_of(low_pair(lower)), bits_of(high_pair(upper)),
                               bits_of(high_pair(lower))};
    const unsigned second[4] = {bits_of(low_pair(upper >> 8)), bits_of(low_pair(lower >> 8)),
                                bits_of(high_pair(upper >> 8)), bits_of(high_pair(lower >> 8))};
    multiply(sum, first, __byte_perm(x.x, x.z, 0x5410), __byte_perm(x.x, x.z, 0x7632));
    multiply(sum, second, __byte_perm(x.y, x.w, 0x5410), __byte_perm(x.y, x.w, 0x7632));
}

// A warp's step is a group of 16 rows, which have one scale each: a lane loads 32 weights of two rows.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    decode_linear(const half *__restrict__ x, const uint4 *__restrict__ w, const half *__restrict__ scales,
                  half *__restrict__ y, int m, int n, int k)
{
    __shared__ float parts[WARPS][ROWS * COLS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.x * ROWS, groups = k / GROUP;
    const size_t upper = min(first + lane / 4, n - 1), lower = min(first + lane / 4 + 8, n - 1);
    const int token = min(lane / 4, m - 1);
    const uint4 *from_x = reinterpret_cast<const uint4 *>(x + static_cast<size_t>(token) * k) + lane % 4 * 4;
    float sum[4] = {};
#pragma unroll 2
    for (int group = warp; group < groups; group += WARPS) {
        const uint4 p = __ldcs(w + (upper * groups + group) * 4 + lane % 4);
        const uint4 q = __ldcs(w + (lower * groups + group) * 4 + lane % 4);
        const float by_upper = __half2float(scales[upper * groups + group]);
        const float by_lower = __half2float(scales[lower * groups + group]);
        const uint4 *v = from_x + group * (GROUP / 8);
        float part[4] = {};
        multiply_eight(part, p.x, q.x, __ldg(v));
        multiply_eight(part, p.y, q.y, __ldg(v + 1));
        multiply_eight(part, p.z, q.z, __ldg(v + 2));
        multiply_eight(part, p.w, q.w, __ldg(v + 3));
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[e] = fmaf(part[e], e < 2 ? by_upper : by_lower, sum[e]);
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
    y[static_cast<size_t>(col) * n + first + row] = __float2half(total);
}
