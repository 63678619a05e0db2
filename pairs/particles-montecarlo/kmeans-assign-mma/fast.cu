// Products of 16 points and 8 centroids come from tensor cores. What is compared is |c|^2 - 2 p.c, shifted left by
// the bits of the centroid's number, which ride below it: one subtraction and one minimum a product.
#define WARPS 8
#define THREADS (32 * WARPS)
#define TILES 4
#define POINTS (16 * TILES)
#define NUMBER_BITS 9
#define MAX_CENTROIDS (1 << NUMBER_BITS)
#define FULL 0xffffffffu

__device__ __forceinline__ void multiply(int (&d)[4], unsigned a0, unsigned a1, unsigned b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a0), "r"(a1), "r"(b));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    assign(const unsigned *__restrict__ points, const uint4 *__restrict__ centroids, int *__restrict__ labels, int n, int k)
{
    __shared__ uint4 centre[MAX_CENTROIDS];
    __shared__ __align__(8) int base[MAX_CENTROIDS];
    const int filled = (k + 7) / 8 * 8;
    for (int c = threadIdx.x; c < filled; c += THREADS) {
        const uint4 v = c < k ? __ldg(centroids + c) : make_uint4(0u, 0u, 0u, 0u);
        const unsigned norm = __dp4a(v.w, v.w, __dp4a(v.z, v.z, __dp4a(v.y, v.y, __dp4a(v.x, v.x, 0u))));
        centre[c] = v;
        base[c] = c < k ? static_cast<int>(norm << NUMBER_BITS) | c : 0x7fffffff;
    }
    __syncthreads();
    const int lane = threadIdx.x % 32, row = lane / 4, part = lane % 4;
    const int first = (blockIdx.x * WARPS + threadIdx.x / 32) * POINTS;
    unsigned a[TILES][2];
    int best[TILES][2];
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int point = min(first + 16 * t + 8 * half + row, n - 1);
            a[t][half] = __ldcs(points + 4 * static_cast<size_t>(point) + part);
            best[t][half] = 0x7fffffff;
        }
    const unsigned *words = reinterpret_cast<const unsigned *>(centre);
#pragma unroll 2
    for (int j = 0; j < filled; j += 8) {
        const unsigned b = words[4 * j + lane];
        const int2 own = *reinterpret_cast<const int2 *>(base + j + 2 * part);
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            int d[4] = {};
            multiply(d, a[t][0], a[t][1], b);
            best[t][0] = min(best[t][0], min(own.x - (d[0] << (NUMBER_BITS + 1)), own.y - (d[1] << (NUMBER_BITS + 1))));
            best[t][1] = min(best[t][1], min(own.x - (d[2] << (NUMBER_BITS + 1)), own.y - (d[3] << (NUMBER_BITS + 1))));
        }
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int word = best[t][half];
            word = min(word, __shfl_xor_sync(FULL, word, 1));
            word = min(word, __shfl_xor_sync(FULL, word, 2));
            const int point = first + 16 * t + 8 * half + row;
            if (part == 0 && point < n)
                labels[point] = word & (MAX_CENTROIDS - 1);
        }
}
