// A block compares 512 queries, two a thread in registers, with a tile of entries in shared memory. Carry-save
// adders leave four population counts of the eight; tiles meet in an atomic minimum of (distance, index).
#define THREADS 256
#define OWN 2
#define TILE 256

__device__ __forceinline__ void add3(unsigned &sum, unsigned &carry, unsigned a, unsigned b, unsigned c)
{
    sum = a ^ b ^ c;
    carry = (a & b) | (a & c) | (b & c);
}

__device__ __forceinline__ unsigned distance256(uint4 a, uint4 b, uint4 c, uint4 d)
{
    unsigned s0, s1, s2, t0, t1, t2, u0, u1;
    add3(s0, t0, a.x ^ c.x, a.y ^ c.y, a.z ^ c.z);
    add3(s1, t1, a.w ^ c.w, b.x ^ d.x, b.y ^ d.y);
    add3(s2, t2, s0, s1, b.z ^ d.z);
    add3(u0, u1, t0, t1, t2);
    return __popc(s2) + __popc(b.w ^ d.w) + 2 * __popc(u0) + 4 * __popc(u1);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    match(const uint4 *__restrict__ queries, const uint4 *__restrict__ entries, unsigned *__restrict__ nearest,
          int count, int n)
{
    __shared__ uint4 tile[TILE][2];
    const int start = blockIdx.y * TILE, here = min(TILE, n - start);
    for (int i = threadIdx.x; i < 2 * here; i += THREADS)
        tile[i / 2][i % 2] = __ldg(entries + 2 * start + i);
    const int first = blockIdx.x * THREADS * OWN + threadIdx.x;
    uint4 low[OWN], high[OWN];
    unsigned best[OWN];
#pragma unroll
    for (int m = 0; m < OWN; m++) {
        const int q = min(first + m * THREADS, count - 1);
        low[m] = __ldg(queries + 2 * q);
        high[m] = __ldg(queries + 2 * q + 1);
        best[m] = 0xffffffffu;
    }
    __syncthreads();
#pragma unroll 4
    for (int e = 0; e < here; e++) {
        const uint4 a = tile[e][0], b = tile[e][1];
#pragma unroll
        for (int m = 0; m < OWN; m++)
            best[m] = min(best[m], distance256(a, b, low[m], high[m]) << 20 | (start + e));
    }
#pragma unroll
    for (int m = 0; m < OWN; m++)
        if (first + m * THREADS < count)
            atomicMin(&nearest[first + m * THREADS], best[m]);
}
