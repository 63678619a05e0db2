#include <cuda_fp16.h>

#define TILES 14
#define SHARES 2
#define ROWS 16
#define GROUP 128
#define STAGES 3
#define WARP_BYTES (STAGES * 1024)
#define ALL 0xffffffffu

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
    multiply(sum, first, x.x, x.y);
    multiply(sum, second, x.z, x.w);
}

// 16 bytes to shared memory in the background.
__device__ __forceinline__ void copy_async(uint4 *to, const uint4 *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
}

// Two rows' weights of a group for this lane, which alone reads them: no thread waits for another.
__device__ __forceinline__ void fetch(uint4 *slot, const uint4 *upper, const uint4 *lower, int group, int groups)
{
    if (group < groups) {
        copy_async(slot, upper + group * 4);
        copy_async(slot + 32, lower + group * 4);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// One block a multiprocessor. All tokens lie in shared memory in the order in which tensor cores take them; two warps
// share the groups of 16 rows, and each lane keeps two groups of weights under way in shared memory of its own.
extern "C" __global__ void __launch_bounds__(32 * SHARES * TILES, 1)
    decode_linear(const half *__restrict__ x, const uint4 *__restrict__ w, const half *__restrict__ scales,
                  half *__restrict__ y, int m, int n, int k)
{
    extern __shared__ uint4 room[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, share = warp % SHARES, groups = k / GROUP;
    const int first = (blockIdx.x * (blockDim.x / (32 * SHARES)) + warp / SHARES) * ROWS;
    const size_t upper = min(first + lane / 4, n - 1), lower = min(first + lane / 4 + 8, n - 1);
    const uint4 *from_upper = w + upper * groups * 4 + lane % 4, *from_lower = w + lower * groups * 4 + lane % 4;
    const half *scale_upper = scales + upper * groups, *scale_lower = scales + lower * groups;
    uint4 *own = room + warp * (WARP_BYTES / 16) + lane;
    uint4 *tokens = room + blockDim.x / 32 * (WARP_BYTES / 16);
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        fetch(own + s * 64, from_upper, from_lower, share + s * SHARES, groups);
    // A lane of four has the scales of one of four steps.
    int ahead = min(share + lane % 4 * SHARES, groups - 1);
    half next_upper = scale_upper[ahead], next_lower = scale_lower[ahead];
    for (int base = threadIdx.x; base < m * (k / 8); base += 4 * blockDim.x) {
        uint4 v[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            v[u] = __ldg(reinterpret_cast<const uint4 *>(x) + min(base + u * static_cast<int>(blockDim.x), m * (k / 8) - 1));
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const int item = base + u * blockDim.x, token = item / (k / 8), eight = item % (k / 8);
            if (item < m * (k / 8))
                tokens[((eight / 16 * 4 + eight % 4) * m + token) * 4 + eight / 4 % 4] =
                    make_uint4(__byte_perm(v[u].x, v[u].z, 0x5410), __byte_perm(v[u].x, v[u].z, 0x7632),
                               __byte_perm(v[u].y, v[u].w, 0x5410), __byte_perm(v[u].y, v[u].w, 0x7632));
        }
    }
    __syncthreads();
    const uint4 *from_x = tokens + min(lane / 4, m - 1) * 4 + lane % 4;
    float sum[4] = {};
    int slot = 0, empty = STAGES - 1;
#pragma unroll 1
    for (int base = share; base < groups; base += 4 * SHARES) {
        const half now_upper = next_upper, now_lower = next_lower;
        ahead = min(base + (4 + lane % 4) * SHARES, groups - 1);
        next_upper = scale_upper[ahead];
        next_lower = scale_lower[ahead];
#pragma unroll 1
        for (int step = 0; step < 4; step++) {
            const int group = base + step * SHARES;
            if (group >= groups)
                break;
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            const uint4 p = own[slot * 64], q = own[slot * 64 + 32];
            fetch(own + empty * 64, from_upper, from_lower, group + (STAGES - 1) * SHARES, groups);
            empty = slot;
            slot = slot + 1 == STAGES ? 0 : slot + 1;
            const uint4 *v = from_x + group * 16 * m;
            float part[2][4] = {};
            multiply_eight(part[0], p.x, q.x, v[0]);
            multiply_eight(part[1], p.y, q.y, v[4 * m]);
            multiply_eight(part[0], p.z, q.z, v[8 * m]);
            multiply_eight(part[1], p.w, q.w, v[12 * m]);
            const float by_upper = __half2float(__shfl_sync(ALL, now_upper, step, 4));
            const float by_lower = __half2float(__shfl_sync(ALL, now_lower, step, 4));
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[e] = fmaf(part[0][e] + part[1][e], e < 2 ? by_upper : by_lower, sum[e]);
        }
    }
    float4 *parts = reinterpret_cast<float4 *>(own);
    if (share == 1)
        *parts = make_float4(sum[0], sum[1], sum[2], sum[3]);
    __syncthreads();
    if (share == 1)
        return;
    const float4 other = parts[WARP_BYTES / 16];
    const float total[4] = {sum[0] + other.x, sum[1] + other.y, sum[2] + other.z, sum[3] + other.w};
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int row = first + lane / 4 + e / 2 * 8, token = lane % 4 * 2 + e % 2;
        if (row < n && token < m)
            y[static_cast<size_t>(token) * n + row] = __float2half(total[e]);
    }
}
