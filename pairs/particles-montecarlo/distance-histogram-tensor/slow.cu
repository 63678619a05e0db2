// Block (a, b) counts the pairs between tiles a and b of TILE points, b at or after a: a thread owns one point
// of a, points of b come from shared memory, and each warp has counts of its own.
#define TILE 256
#define WARPS (TILE / 32)
#define BINS 256

extern "C" __global__ void __launch_bounds__(TILE)
    count_pairs(const int *__restrict__ points, unsigned *__restrict__ counts, int n, int shift)
{
    __shared__ unsigned own[WARPS][BINS];
    __shared__ int4 tile[TILE];
    const int a = blockIdx.x, b = blockIdx.y, t = threadIdx.x;
    if (b < a)
        return;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        own[w][t] = 0;
    const int i = a * TILE + t, j = b * TILE + t;
    if (j < n)
        tile[t] = make_int4(points[3 * j], points[3 * j + 1], points[3 * j + 2], 0);
    __syncthreads();
    if (i < n) {
        const int x = points[3 * i], y = points[3 * i + 1], z = points[3 * i + 2];
        unsigned *mine = own[t / 32];
        const int last = min(TILE, n - b * TILE);
#pragma unroll 4
        for (int k = a == b ? t + 1 : 0; k < last; k++) {
            const int4 p = tile[k];
            const int dx = p.x - x, dy = p.y - y, dz = p.z - z;
            atomicAdd(&mine[(dx * dx + dy * dy + dz * dz) >> shift], 1u);
        }
    }
    __syncthreads();
    unsigned sum = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        sum += own[w][t];
    if (sum > 0)
        atomicAdd(&counts[t], sum);
}
