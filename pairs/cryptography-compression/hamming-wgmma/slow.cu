// Bits as bytes of 1 and -1: the product of two codes is 256 less twice their distance, so tensor cores compare.
// A warp keeps 16 queries in registers; tiles of entries pass by in shared memory, two in flight. The distance
// and the entry's number are one word: a subtraction and a minimum a pair.
#define WORDS 64
#define WARPS 8
#define THREADS (32 * WARPS)
#define TILE 64
#define SHARE 2048
#define FULL 0xffffffffu

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// Four bits as four bytes of 1 or -1.
__device__ __forceinline__ unsigned spread(unsigned four)
{
    const unsigned ones = (four * 0x00204081u) & 0x01010101u;
    return ((ones ^ 0x01010101u) * 0xffu) | ones;
}

extern "C" __global__ void __launch_bounds__(256)
    expand(const unsigned *__restrict__ codes, uint4 *__restrict__ bytes, int words)
{
    const int item = blockIdx.x * 256 + threadIdx.x;
    if (item < 2 * words) {
        const unsigned half = codes[item / 2] >> item % 2 * 16;
        bytes[item] = make_uint4(spread(half & 15u), spread(half >> 4 & 15u), spread(half >> 8 & 15u),
                                 spread(half >> 12 & 15u));
    }
}

__device__ __forceinline__ void multiply(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Rows of 16 chunks of 16 bytes; eight rows' chunks of one column are in different banks.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * 4 * WORDS + (chunk ^ row % 8) * 16;
}

__device__ __forceinline__ void load_tile(unsigned char *to, const unsigned char *__restrict__ entries, int base, int end)
{
#pragma unroll
    for (int part = 0; part < TILE * 16 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS, row = item / 16, from = min(base + row, end - 1);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to + place(row, item % 16))),
                     "l"(entries + static_cast<size_t>(from) * 4 * WORDS + item % 16 * 16)
                     : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    match(const unsigned *__restrict__ queries, const unsigned char *__restrict__ entries,
          unsigned *__restrict__ nearest, int count, int n)
{
    __shared__ __align__(128) unsigned char tiles[2][TILE * 4 * WORDS];
    const int lane = threadIdx.x % 32, first = (blockIdx.x * WARPS + threadIdx.x / 32) * 16 + lane / 4;
    const int begin = blockIdx.y * SHARE, end = min(n, begin + SHARE);
    load_tile(tiles[0], entries, begin, end);
    unsigned a[8][4];
#pragma unroll
    for (int k = 0; k < 8; k++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int row = min(first + e % 2 * 8, count - 1);
            a[k][e] = queries[static_cast<size_t>(row) * WORDS + 8 * k + e / 2 * 4 + lane % 4];
        }
    unsigned best[2] = {0xffffffffu, 0xffffffffu};
#pragma unroll 1
    for (int base = begin; base < end; base += TILE) {
        unsigned char *tile = tiles[(base - begin) / TILE % 2];
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        if (base + TILE < end)
            load_tile(tiles[((base - begin) / TILE + 1) % 2], entries, base + TILE, end);
#pragma unroll 1
        for (int j = 0; j < TILE; j += 16) {
            int d[2][4] = {};
#pragma unroll
            for (int k = 0; k < 8; k++) {
                unsigned b[4];
                const int row = j + lane % 8 + lane / 16 * 8;
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                             : "r"(shared_address(tile + place(row, 2 * k + lane / 8 % 2)))
                             : "memory");
                multiply(d[0], a[k], b[0], b[1]);
                multiply(d[1], a[k], b[2], b[3]);
            }
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int at = base + j + 8 * half + lane % 4 * 2 + e % 2;
                    const unsigned found = (256u << 19) + at - (static_cast<unsigned>(d[half][e]) << 19);
                    best[e / 2] = min(best[e / 2], at < end ? found : 0xffffffffu);
                }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        unsigned found = best[half];
        found = min(found, __shfl_xor_sync(FULL, found, 1));
        found = min(found, __shfl_xor_sync(FULL, found, 2));
        if (lane % 4 == 0 && first + 8 * half < count)
            atomicMin(nearest + first + 8 * half, found);
    }
}
