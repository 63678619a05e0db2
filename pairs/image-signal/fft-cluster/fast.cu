#include <cooperative_groups.h>

#define SIDE 256
#define BLOCKS 8
#define LINES (SIDE / BLOCKS)
#define THREADS (16 * LINES)
#define PITCH (SIDE + 1)

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

// A signal's 256 points of a line by sixteen threads: 16-point transforms, an exchange, and the turns between.
__device__ __forceinline__ void exchange_lines(float2 (&v)[16], float2 *shared, int t, int line)
{
    float s, c;
    sincospif(-t / 128.0f, &s, &c);
    const float2 step = make_float2(c, s);
    float2 turn = make_float2(1.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < 16; k++) {
        shared[(k * 16 + t) * (LINES + 1) + line] = v[4 * (k % 4) + k / 4] * turn;
        turn = turn * step;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++)
        v[k] = shared[(t * 16 + k) * (LINES + 1) + line];
}

// One cluster per signal, as a square of 256: columns, twiddles, rows, with the square turned between blocks. The
// exchanges within a block and the turned square share one buffer, so that two clusters fit where one did: one reads
// while the other computes. The barrier before the turn is waited for only after the transform in registers.
extern "C" __global__ void __launch_bounds__(THREADS, 2) transform(const float2 *__restrict__ in, float2 *__restrict__ out)
{
    extern __shared__ float2 shared[];
    cg::cluster_group cluster = cg::this_cluster();
    const int rank = cluster.block_rank(), line = threadIdx.x % LINES, t = threadIdx.x / LINES;
    const size_t base = static_cast<size_t>(blockIdx.x / BLOCKS) * SIDE * SIDE;
    const int column = rank * LINES + line;
    float2 v[16];
#pragma unroll
    for (int k = 0; k < 16; k++)
        v[k] = __ldcs(in + base + (k * 16 + t) * SIDE + column);
    fft16(v);
    exchange_lines(v, shared, t, line);
    cluster.barrier_arrive();
    fft16(v);
    float s, c;
    sincospif(-(t * column) / 32768.0f, &s, &c);
    float2 turn = make_float2(c, s);
    sincospif(-column / 2048.0f, &s, &c);
    const float2 step = make_float2(c, s);
    cluster.barrier_wait(); // nobody reads the last exchange any more
#pragma unroll
    for (int k = 0; k < 16; k++) {
        const int row = k * 16 + t;
        cluster.map_shared_rank(shared, row / LINES)[row % LINES * PITCH + column] = v[4 * (k % 4) + k / 4] * turn;
        turn = turn * step;
    }
    cluster.sync();
#pragma unroll
    for (int k = 0; k < 16; k++)
        v[k] = shared[line * PITCH + k * 16 + t];
    fft16(v);
    __syncthreads();
    exchange_lines(v, shared, t, line);
    fft16(v);
#pragma unroll
    for (int k = 0; k < 16; k++)
        __stcs(out + base + (k * 16 + t) * SIDE + column, v[4 * (k % 4) + k / 4]);
}
