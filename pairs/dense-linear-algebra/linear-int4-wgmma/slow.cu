#include <cuda_fp16.h>

#define THREADS 128
#define ROWS 128
#define COLS 128
#define DEPTH 128
#define STAGES 2
#define LEFT_BYTES (ROWS * DEPTH * 2)
#define RIGHT_BYTES (COLS * DEPTH / 2)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)

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

// Rows of 256 bytes of the left factor. A lane reads chunk 4t + c of a row, t being its place among four lanes:
// chunks are exchanged so that the eight lanes of a phase, two rows, meet different banks.
__device__ __forceinline__ int place(int row, int chunk)
{
    return (row * 16 + (chunk ^ (chunk >> 3 & 1) ^ (row & 1) << 1)) * 16;
}

__device__ __forceinline__ void copy_stage(unsigned char *to, const half *__restrict__ a,
                                           const unsigned char *__restrict__ b, int row, int m, int col, int n,
                                           int depth, int k)
{
#pragma unroll 4
    for (int part = 0; part < ROWS * 16 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS, i = item / 16, chunk = item % 16;
        const bool inside = row + i < m;
        copy_async(to + place(i, chunk), inside ? a + static_cast<size_t>(row + i) * k + depth + chunk * 8 : a, inside);
    }
#pragma unroll
    for (int part = 0; part < COLS * 4 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS, i = item / 4, chunk = item % 4;
        const bool inside = col + i < n;
        copy_async(to + LEFT_BYTES + item * 16,
                   inside ? b + (static_cast<size_t>(col + i) * k + depth) / 2 + chunk * 16 : b, inside);
    }
}

// Eight features of a row in the order of the weights.
__device__ __forceinline__ uint4 interleaved(const unsigned char *from)
{
    const uint4 v = *reinterpret_cast<const uint4 *>(from);
    return make_uint4(__byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632), __byte_perm(v.y, v.w, 0x5410),
                      __byte_perm(v.y, v.w, 0x7632));
}

// One stage is one group of weights with a scale for each column; a lane has 32 features of each of its rows and
// columns, in the same order in both factors.
__device__ __forceinline__ void multiply_stage(float (&sum)[4][8][4], const unsigned char *left,
                                               const unsigned char *right, const half2 (&scale)[8], int y, int x)
{
    const int lane = threadIdx.x % 32;
    uint4 packed[8];
#pragma unroll
    for (int s = 0; s < 8; s++)
        packed[s] = *reinterpret_cast<const uint4 *>(right + (x + 8 * s + lane / 4) * 64 + lane % 4 * 16);
#pragma unroll
    for (int quarter = 0; quarter < 4; quarter++) {
        unsigned p[2][4][4];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const int row = y + 16 * r + lane / 4, chunk = lane % 4 * 4 + quarter;
            const uint4 upper = interleaved(left + place(row, chunk)), lower = interleaved(left + place(row + 8,
                                                                                                        chunk));
            p[0][r][0] = upper.x, p[0][r][1] = lower.x, p[0][r][2] = upper.y, p[0][r][3] = lower.y;
            p[1][r][0] = upper.z, p[1][r][1] = lower.z, p[1][r][2] = upper.w, p[1][r][3] = lower.w;
        }
#pragma unroll
        for (int s = 0; s < 8; s++) {
            const unsigned word = reinterpret_cast<const unsigned *>(&packed[s])[quarter];
            const unsigned q[4] = {bits_of(__hmul2(low_pair(word), scale[s])),
                                   bits_of(__hmul2(high_pair(word), scale[s])),
                                   bits_of(__hmul2(low_pair(word >> 8), scale[s])),
                                   bits_of(__hmul2(high_pair(word >> 8), scale[s]))};
#pragma unroll
            for (int r = 0; r < 4; r++) {
                multiply(sum[r][s], p[0][r], q[0], q[1]);
                multiply(sum[r][s], p[1][r], q[2], q[3]);
            }
        }
    }
}

__device__ __forceinline__ void put(half *__restrict__ c, int row, int col, int m, int n, float left, float right)
{
    if (row >= m || col >= n)
        return;
    half *to = c + static_cast<size_t>(row) * n + col;
    if (n % 2 == 0) {
        *reinterpret_cast<half2 *>(to) = __floats2half2_rn(left, right);
        return;
    }
    to[0] = __float2half(left);
    if (col + 1 < n)
        to[1] = __float2half(right);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    linear(const half *__restrict__ a, const unsigned char *__restrict__ b, const half *__restrict__ scales,
           half *__restrict__ c, int m, int n, int k)
{
    extern __shared__ __align__(128) unsigned char stages[];
    const int row = blockIdx.y * ROWS, col = blockIdx.x * COLS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int y = warp / 2 * 64, x = warp % 2 * 64, tiles = k / DEPTH;
    float sum[4][8][4] = {};
    copy_stage(stages, a, b, row, m, col, n, 0, k);
    commit();
    for (int tile = 0; tile < tiles; tile++) {
        half2 scale[8];
#pragma unroll
        for (int s = 0; s < 8; s++)
            scale[s] = __half2half2(scales[static_cast<size_t>(min(col + x + 8 * s + lane / 4, n - 1)) * tiles + tile]);
        wait_copies<0>();
        __syncthreads();
        if (tile + 1 < tiles)
            copy_stage(stages + (tile + 1) % STAGES * STAGE_BYTES, a, b, row, m, col, n, (tile + 1) * DEPTH, k);
        commit();
        const unsigned char *stage = stages + tile % STAGES * STAGE_BYTES;
        multiply_stage(sum, stage, stage + LEFT_BYTES, scale, y, x);
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 8; s++) {
            const int i = row + y + 16 * r + lane / 4, j = col + x + 8 * s + lane % 4 * 2;
            put(c, i, j, m, n, sum[r][s][0], sum[r][s][1]);
            put(c, i + 8, j, m, n, sum[r][s][2], sum[r][s][3]);
        }
}
