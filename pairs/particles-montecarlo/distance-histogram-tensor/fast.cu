// Squared distances come from tensor cores: |p|^2 + |q|^2 - 2 p.q as a product over seven halves, all of them whole
// numbers that halves hold, summed exactly onto 2^23, so that the bits of a sum end in the distance. A block has one table of
// counts with a column for each lane: a warp's lanes never meet in a bank.
#include <cuda_fp16.h>

#define TILE 128
#define PARTS (TILE / 16)
#define GROUPS (TILE / 8)
#define THREADS 512
#define BINS 256
#define BASE 8388608.0f

__device__ __forceinline__ unsigned pair_of(int low, int high)
{
    return __half_as_ushort(__int2half_rn(low)) | static_cast<unsigned>(__half_as_ushort(__int2half_rn(high))) << 16;
}

// A point as a row of the left factor and as a column of the right one, in the order in which lanes hold them. The
// square of its length is taken in two parts, which halves can hold.
extern "C" __global__ void __launch_bounds__(256)
    prepare(const int *__restrict__ points, uint4 *__restrict__ lefts, uint4 *__restrict__ rights,
            unsigned *__restrict__ counts, int n, int padded)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x == 0 && threadIdx.x < BINS)
        counts[threadIdx.x] = 0;
    if (i >= padded)
        return;
    const int x = i < n ? points[3 * i] : 0, y = i < n ? points[3 * i + 1] : 0, z = i < n ? points[3 * i + 2] : 0;
    const int square = x * x + y * y + z * z, high = square / 2048, low = square % 2048;
    lefts[i] = make_uint4(pair_of(-2 * x, -2 * y), pair_of(-2 * z, 2048), pair_of(1, high), pair_of(low, 0));
    rights[i] = make_uint4(pair_of(x, y), pair_of(z, high), pair_of(low, 2048), pair_of(1, 0));
}

__device__ __forceinline__ void distances(float (&sum)[4], unsigned a0, unsigned a1, unsigned b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
                 : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
                 : "r"(a0), "r"(a1), "r"(b), "f"(BASE));
}

// A bin has 128 bytes in the table, so that the distance need only be shifted to be the place.
__device__ __forceinline__ void count(char *mine, float sum, int shift)
{
    atomicAdd(reinterpret_cast<unsigned *>(mine + (__float_as_uint(sum) >> (shift - 7) & (BINS - 1) * 128)), 1u);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    count_pairs(const unsigned *__restrict__ lefts, const unsigned *__restrict__ rights, unsigned *__restrict__ counts,
                int n, int tiles, int shift)
{
    __shared__ __align__(16) unsigned table[BINS][32];
    for (int w = threadIdx.x; w < BINS * 8; w += THREADS)
        reinterpret_cast<uint4 *>(table)[w] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    const int lane = threadIdx.x % 32;
    char *mine = reinterpret_cast<char *>(&table[0][lane]);
    const int units = tiles / 2 * (tiles + 1) * PARTS, warps = gridDim.x * (THREADS / 32);
    // The pairs of tiles a, b with b no less than a, folded into a rectangle of tiles / 2 by tiles + 1.
    for (int unit = (blockIdx.x * THREADS + threadIdx.x) / 32; unit < units; unit += warps) {
        const int p = unit / PARTS / (tiles + 1), q = unit / PARTS % (tiles + 1);
        const int a = q > p ? p : tiles - 1 - p, b = q > p ? q - 1 : tiles - 1 - q;
        const int first = a * TILE + unit % PARTS * 16;
        const unsigned a0 = __ldg(lefts + first * 4 + lane), a1 = __ldg(lefts + first * 4 + 32 + lane);
        const unsigned *right = rights + b * TILE * 4 + lane;
        if (a != b && (b + 1) * TILE <= n) {
#pragma unroll 8
            for (int g = 0; g < GROUPS; g++) {
                float sum[4];
                distances(sum, a0, a1, __ldg(right + g * 32));
#pragma unroll
                for (int k = 0; k < 4; k++)
                    count(mine, sum[k], shift);
            }
        } else {
#pragma unroll 1
            for (int g = 0; g < GROUPS; g++) {
                float sum[4];
                distances(sum, a0, a1, __ldg(right + g * 32));
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const int i = first + lane / 4 + k / 2 * 8, j = b * TILE + g * 8 + lane % 4 * 2 + k % 2;
                    if (i < j && j < n)
                        count(mine, sum[k], shift);
                }
            }
        }
    }
    __syncthreads();
    if (threadIdx.x < BINS) {
        unsigned sum = 0;
#pragma unroll
        for (int k = 0; k < 32; k++)
            sum += table[threadIdx.x][(k + threadIdx.x) % 32];
        if (sum > 0)
            atomicAdd(&counts[threadIdx.x], sum);
    }
}
