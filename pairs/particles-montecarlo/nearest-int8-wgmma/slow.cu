#define DIMS 64
#define WARPS 8
#define THREADS (32 * WARPS)
#define TILE 128
#define STAGES 3
#define SHARE 4096
#define FULL 0xffffffffu

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// Four lanes a row: the sum of its squares.
extern "C" __global__ void __launch_bounds__(256)
    squares(const int4 *__restrict__ rows, int *__restrict__ sums, int count)
{
    const int item = blockIdx.x * 256 + threadIdx.x;
    int sum = 0;
    if (item < 4 * count) {
        const int4 v = rows[item];
        sum = __dp4a(v.x, v.x, __dp4a(v.y, v.y, __dp4a(v.z, v.z, __dp4a(v.w, v.w, 0))));
    }
    sum += __shfl_xor_sync(FULL, sum, 1);
    sum += __shfl_xor_sync(FULL, sum, 2);
    if (item < 4 * count && item % 4 == 0)
        sums[item / 4] = sum;
}

// Rows of four chunks of 16 bytes; two rows fill the banks once.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * DIMS + (chunk ^ row / 2 % 4) * 16;
}

__device__ __forceinline__ void load_tile(signed char *to, int *sums, const signed char *__restrict__ points,
                                          const int *__restrict__ point_sums, int base, int end)
{
#pragma unroll
    for (int part = 0; part < TILE * 4 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS, row = item / 4;
        const bool inside = base + row < end;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to + place(row, item % 4))),
                     "l"(inside ? points + static_cast<size_t>(base) * DIMS + item * 16 : points), "r"(inside ? 16 : 0)
                     : "memory");
    }
    if (threadIdx.x < TILE)
        sums[threadIdx.x] = base + threadIdx.x < end ? point_sums[base + threadIdx.x] : 0x3fffffff;
}

__device__ __forceinline__ void multiply(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Sixteen queries per warp in registers; tiles of points pass by in shared memory, three in flight.
extern "C" __global__ void __launch_bounds__(THREADS)
    nearest(const signed char *__restrict__ queries, const signed char *__restrict__ points,
            const int *__restrict__ query_sums, const int *__restrict__ point_sums,
            unsigned long long *__restrict__ best, int m, int n)
{
    __shared__ __align__(128) signed char tiles[STAGES][TILE * DIMS];
    __shared__ __align__(8) int sums[STAGES][TILE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = (blockIdx.x * WARPS + warp) * 16 + lane / 4;
    unsigned a[2][4];
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int row = min(first + e % 2 * 8, m - 1);
            a[half][e] = *reinterpret_cast<const unsigned *>(queries + static_cast<size_t>(row) * DIMS + half * 32 +
                                                             e / 2 * 16 + lane % 4 * 4);
        }
    const int begin = blockIdx.y * SHARE, end = min(n, begin + SHARE), count = (end - begin + TILE - 1) / TILE;
    int least[2] = {2147483647, 2147483647}, index[2] = {};
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < count)
            load_tile(tiles[s], sums[s], points, point_sums, begin + s * TILE, end);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
#pragma unroll 1
    for (int t = 0; t < count; t++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = t + STAGES - 1;
        if (next < count)
            load_tile(tiles[next % STAGES], sums[next % STAGES], points, point_sums, begin + next * TILE, end);
        asm volatile("cp.async.commit_group;" ::: "memory");
        const signed char *tile = tiles[t % STAGES];
#pragma unroll 4
        for (int j = 0; j < TILE; j += 8) {
            unsigned b[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                         : "r"(shared_address(tile + place(j + lane % 8, lane / 8)))
                         : "memory");
            int d[4] = {};
            multiply(d, a[0], b[0], b[1]);
            multiply(d, a[1], b[2], b[3]);
            const int2 square = *reinterpret_cast<const int2 *>(&sums[t % STAGES][j + lane % 4 * 2]);
            const int at = begin + t * TILE + j + lane % 4 * 2;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int distance = (e % 2 ? square.y : square.x) - 2 * d[e];
                if (distance < least[e / 2]) {
                    least[e / 2] = distance;
                    index[e / 2] = at + e % 2;
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = first + r * 8;
        const int own = row < m ? query_sums[row] : 0;
        unsigned long long word = static_cast<unsigned long long>(static_cast<unsigned>(least[r] + own)) << 32 |
                                  static_cast<unsigned>(index[r]);
#pragma unroll
        for (int distance = 1; distance < 4; distance *= 2) {
            const unsigned long long other = __shfl_xor_sync(FULL, word, distance);
            word = other < word ? other : word;
        }
        if (row < m && lane % 4 == 0)
            atomicMin(best + row, word);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    finish(const unsigned long long *__restrict__ best, int *__restrict__ indices, int *__restrict__ distances, int m)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < m) {
        indices[i] = static_cast<int>(best[i] & 0xffffffffu);
        distances[i] = static_cast<int>(best[i] >> 32);
    }
}
