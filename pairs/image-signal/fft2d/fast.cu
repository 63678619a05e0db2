#include <cooperative_groups.h>

#define SIDE 256
#define BLOCKS 8
#define LINES (SIDE / BLOCKS)
#define THREADS (16 * LINES)
#define PITCH (16 * 17)

namespace cg = cooperative_groups;

__device__ __forceinline__ float2 operator+(float2 a, float2 b)
{
    return make_float2(a.x + b.x, a.y + b.y);
}

__device__ __forceinline__ float2 operator-(float2 a, float2 b)
{
    return make_float2(a.x - b.x, a.y - b.y);
}

__device__ __forceinline__ float2 operator*(float2 a, float2 b)
{
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

__device__ __forceinline__ void fft4(float2 &a, float2 &b, float2 &c, float2 &d)
{
    const float2 p = a + c, q = a - c, r = b + d, s = b - d;
    const float2 turned = make_float2(s.y, -s.x);
    a = p + r;
    b = q + turned;
    c = p - r;
    d = q - turned;
}

// Sixteen values in registers, by radix 4 twice; value k of the result stands at 4 * (k % 4) + k / 4.
__device__ __forceinline__ void fft16(float2 (&v)[16])
{
    const float c1 = 0.92387953251f, s1 = 0.38268343236f, h = 0.70710678119f;
#pragma unroll
    for (int j = 0; j < 4; j++)
        fft4(v[j], v[4 + j], v[8 + j], v[12 + j]);
    v[5] = v[5] * make_float2(c1, -s1);
    v[6] = v[6] * make_float2(h, -h);
    v[7] = v[7] * make_float2(s1, -c1);
    v[9] = v[9] * make_float2(h, -h);
    v[10] = make_float2(v[10].y, -v[10].x);
    v[11] = v[11] * make_float2(-h, -h);
    v[13] = v[13] * make_float2(s1, -c1);
    v[14] = v[14] * make_float2(-h, -h);
    v[15] = v[15] * make_float2(-c1, s1);
#pragma unroll
    for (int j = 0; j < 4; j++)
        fft4(v[4 * j], v[4 * j + 1], v[4 * j + 2], v[4 * j + 3]);
}

// The turn that stands between the two rounds of 16-point transforms of 256 points.
__device__ __forceinline__ float2 turn_of(int t)
{
    float s, c;
    sincospif(-t / 128.0f, &s, &c);
    return make_float2(c, s);
}

// One cluster of eight blocks per image, read and written once: a block transforms 32 rows, sends each value to the block
// that owns its column, and transforms 32 columns. One buffer serves both exchanges and the turned image, so that two
// clusters share a multiprocessor: one waits for memory while the other computes.
extern "C" __global__ void __launch_bounds__(THREADS, 2) transform(const float2 *__restrict__ in, float2 *__restrict__ out)
{
    extern __shared__ float2 shared[];
    cg::cluster_group cluster = cg::this_cluster();
    const int rank = cluster.block_rank();
    const size_t base = static_cast<size_t>(blockIdx.x / BLOCKS) * SIDE * SIDE;
    float2 v[16];
    {
        // Rows: half a warp a row, which exchanges in a part of the buffer that is its own.
        const int line = threadIdx.x / 16, t = threadIdx.x % 16;
        const float2 *from = in + base + (rank * LINES + line) * SIDE;
        float2 *exchange = shared + line * PITCH;
#pragma unroll
        for (int k = 0; k < 16; k++)
            v[k] = __ldcs(from + k * 16 + t);
        fft16(v);
        const float2 step = turn_of(t);
        float2 turn = make_float2(1.0f, 0.0f);
#pragma unroll
        for (int k = 0; k < 16; k++) {
            exchange[k * 17 + t] = v[4 * (k % 4) + k / 4] * turn;
            turn = turn * step;
        }
        __syncwarp();
#pragma unroll
        for (int k = 0; k < 16; k++)
            v[k] = exchange[t * 17 + k];
        cluster.barrier_arrive();
        fft16(v);
        cluster.barrier_wait(); // nobody reads the exchange any more
#pragma unroll
        for (int k = 0; k < 16; k++)
            cluster.map_shared_rank(shared, k / 2)[(rank * LINES + line) * LINES + k % 2 * 16 + t] = v[4 * (k % 4) + k / 4];
    }
    cluster.sync();
    // Columns: a lane a column, the sixteen threads of a column in as many warps.
    const int line = threadIdx.x % LINES, t = threadIdx.x / LINES;
#pragma unroll
    for (int k = 0; k < 16; k++)
        v[k] = shared[(k * 16 + t) * LINES + line];
    fft16(v);
    const float2 step = turn_of(t);
    float2 turn = make_float2(1.0f, 0.0f);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++) {
        shared[(k * 16 + t) * LINES + line] = v[4 * (k % 4) + k / 4] * turn;
        turn = turn * step;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++)
        v[k] = shared[(t * 16 + k) * LINES + line];
    fft16(v);
    float2 *to = out + base + rank * LINES + line;
#pragma unroll
    for (int k = 0; k < 16; k++)
        __stcs(to + (k * 16 + t) * SIDE, v[4 * (k % 4) + k / 4]);
}
