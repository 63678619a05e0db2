// Products of 16 points and 8 centroids come from tensor cores. What is compared is |c|^2 - 2 p.c, shifted left by
// the bits of the centroid's number, which ride below it: one subtraction and one minimum a product. Blocks stay and walk
// over the points, so that the centroids are prepared once, and the next points are on their way meanwhile.
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

// Four lanes have looked at a quarter of the centroids each, for eight points. Two exchanges leave each with two points' best:
// words 2 * part and 2 * part + 1.
__device__ __forceinline__ int2 best_of_four(const int (&word)[2 * TILES], int part)
{
    static_assert(TILES == 4);
    int four[4], two[2];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int kept = part / 2 ? word[4 + i] : word[i], given = part / 2 ? word[i] : word[4 + i];
        four[i] = min(kept, __shfl_xor_sync(FULL, given, 2));
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int kept = part % 2 ? four[2 + i] : four[i], given = part % 2 ? four[i] : four[2 + i];
        two[i] = min(kept, __shfl_xor_sync(FULL, given, 1));
    }
    return make_int2(two[0], two[1]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
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
    const unsigned *words = reinterpret_cast<const unsigned *>(centre) + lane;
    const int *own_base = base + 2 * part;
    const int stride = gridDim.x * WARPS * POINTS, start = (blockIdx.x * WARPS + threadIdx.x / 32) * POINTS;
    // Word i of a lane is that of point 8 * i + row; of points past the last, the last one's.
    const unsigned *at = points + 4 * static_cast<size_t>(start) + lane;
    const auto load = [&](unsigned (&to)[2 * TILES], int left) {
        if (left >= POINTS) {
#pragma unroll
            for (int i = 0; i < 2 * TILES; i++)
                to[i] = __ldcs(at + 32 * i);
        } else if (left > 0) {
#pragma unroll
            for (int i = 0; i < 2 * TILES; i++)
                to[i] = __ldcs(at + 4 * (min(8 * i + row, left - 1) - row));
        }
        at += 4 * static_cast<size_t>(stride);
    };
    unsigned coming[2 * TILES] = {};
    int *to = labels + start + 16 * part + row;
    load(coming, n - start);
#pragma unroll 1
    for (int left = n - start; left > 0; left -= stride, to += stride) {
        unsigned a[2 * TILES];
        int best[2 * TILES];
#pragma unroll
        for (int i = 0; i < 2 * TILES; i++) {
            a[i] = coming[i];
            best[i] = 0x7fffffff;
        }
        load(coming, left - stride);
#pragma unroll 4
        for (int j = 0; j < filled; j += 8) {
            const unsigned b = words[4 * j];
            const int2 own = *reinterpret_cast<const int2 *>(own_base + j);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                int d[4] = {};
                multiply(d, a[2 * t], a[2 * t + 1], b);
                best[2 * t] = min(best[2 * t], min(own.x - (d[0] << (NUMBER_BITS + 1)), own.y - (d[1] << (NUMBER_BITS + 1))));
                best[2 * t + 1] =
                    min(best[2 * t + 1], min(own.x - (d[2] << (NUMBER_BITS + 1)), own.y - (d[3] << (NUMBER_BITS + 1))));
            }
        }
        const int2 two = best_of_four(best, part);
        if (16 * part + row < left)
            __stcs(to, two.x & (MAX_CENTROIDS - 1));
        if (16 * part + row + 8 < left)
            __stcs(to + 8, two.y & (MAX_CENTROIDS - 1));
    }
}
