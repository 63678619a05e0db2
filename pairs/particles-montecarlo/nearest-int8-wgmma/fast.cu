#include <cuda.h>

#define DIMS 64
#define CONSUMERS 2
#define CONSUMER_WARPS (4 * CONSUMERS)
#define THREADS (128 * (1 + CONSUMERS))
#define ROWS 128
#define TILE 256
#define STAGES 8
#define POINT_BYTES (TILE * DIMS)
#define HALF_BYTES (POINT_BYTES / 2)
#define STAGE_BYTES (POINT_BYTES + TILE * 4)
#define GROUP_ROWS (ROWS / CONSUMERS)
#define FULL 0xffffffffu
#define NONE 0x7fffff00

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void init_barrier(unsigned barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ __forceinline__ void multiply(int (&d)[64], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, adds;\n"
        "}\n"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]),
          "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]),
          "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]),
          "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]),
          "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]),
          "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]),
          "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]),
          "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]),
          "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]),
          "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]),
          "+r"(d[40]), "+r"(d[41]), "+r"(d[42]), "+r"(d[43]),
          "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]),
          "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]),
          "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]),
          "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]),
          "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63])
        : "l"(a), "l"(b), "r"(adds));
}

__device__ __forceinline__ void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void commit_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int PENDING> __device__ __forceinline__ void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Rows of 64 bytes, eight rows to a swizzled block of 512.
__device__ __forceinline__ unsigned long long describe(unsigned tile)
{
    return 2ull << 62 | 32ull << 32 | 1ull << 16 | (tile & 0x3ffff) >> 4;
}

__device__ __forceinline__ void load_box(unsigned to, const CUtensorMap *map, int row, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(0), "r"(row), "r"(barrier) : "memory");
}

__device__ __forceinline__ void load_keys(unsigned to, const int *from, unsigned barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "n"(TILE * 4), "r"(barrier) : "memory");
}

// Four lanes a row: the sum of its squares. A point's has its number within a tile below it: nine bits are left, as no
// distance takes more than 23. After the last point stand keys that no point reaches. The first blocks have the queries,
// and begin what the next launch counts on.
extern "C" __global__ void __launch_bounds__(256)
    squares(const int4 *__restrict__ queries, const int4 *__restrict__ points, int *__restrict__ query_sums,
            int *__restrict__ point_keys, unsigned long long *__restrict__ best, unsigned *__restrict__ tickets, int m,
            int n)
{
    const int query_blocks = (m + 63) / 64, block = blockIdx.x, lane = threadIdx.x % 4;
    const bool of_queries = block < query_blocks;
    const int row = (of_queries ? block : block - query_blocks) * 64 + threadIdx.x / 4, count = of_queries ? m : n;
    int sum = 0;
    if (row < count) {
        const int4 v = (of_queries ? queries : points)[row * 4 + lane];
        sum = __dp4a(v.x, v.x, __dp4a(v.y, v.y, __dp4a(v.z, v.z, __dp4a(v.w, v.w, 0))));
    }
    sum += __shfl_xor_sync(FULL, sum, 1);
    sum += __shfl_xor_sync(FULL, sum, 2);
    if (lane != 0)
        return;
    if (!of_queries) {
        point_keys[row] = (row < count ? sum * 512 : NONE) + row % TILE;
    } else if (row < count) {
        query_sums[row] = sum;
        best[row] = ~0ull;
        if (row % ROWS == 0)
            tickets[row / ROWS] = 0;
    }
}

// The products of 64 queries and 128 points.
__device__ __forceinline__ void score(int (&sum)[64], unsigned left, unsigned points)
{
    begin_products();
    multiply(sum, describe(left), describe(points), 0);
    multiply(sum, describe(left + 32), describe(points + 32), 1);
    commit_products();
}

// The least keys of a thread's two rows: |point|^2 - 2 * product, and the point's number below.
__device__ __forceinline__ void consider(int (&low)[2], const int (&sum)[64], const int *keys)
{
#pragma unroll
    for (int i = 0; i < TILE / 16; i++) {
        const int2 key = *reinterpret_cast<const int2 *>(keys + 8 * i + threadIdx.x % 4 * 2);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            low[half] = min(low[half], key.x - sum[4 * i + 2 * half] * 1024);
            low[half] = min(low[half], key.y - sum[4 * i + 2 * half + 1] * 1024);
        }
    }
}

struct Nearest {
    int least[2], index[2];
};

__device__ __forceinline__ void keep(Nearest &found, const int (&low)[2], int first)
{
#pragma unroll
    for (int half = 0; half < 2; half++)
        if (low[half] >> 9 < found.least[half]) {
            found.least[half] = low[half] >> 9;
            found.index[half] = first + (low[half] & TILE - 1);
        }
}

// One warp group loads tiles of points by tensor maps, two multiply 64 queries each by wgmma and keep the least key: while
// the keys of 128 points are looked through, the products of the next 128 are made. The last block of a row of blocks
// writes the answers.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    nearest(const __grid_constant__ CUtensorMap queries, const __grid_constant__ CUtensorMap points,
            const int *__restrict__ query_sums, const int *__restrict__ point_keys,
            unsigned long long *__restrict__ best, unsigned *__restrict__ tickets, int *__restrict__ indices,
            int *__restrict__ distances, int m, int n, int share)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES], ready;
    __shared__ unsigned turn;
    unsigned char *aligned = room + (1023 & (0u - shared_address(room)));
    const unsigned own = shared_address(aligned), stages = own + ROWS * DIMS;
    const int group = threadIdx.x / 128;
    const int begin = blockIdx.y * share, all = (n + TILE - 1) / TILE, tiles = min(share, all - begin);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&full[s]), 1);
            init_barrier(shared_address(&empty[s]), CONSUMER_WARPS);
        }
        init_barrier(shared_address(&ready), 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();

    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&ready)),
                         "n"(ROWS * DIMS) : "memory");
            load_box(own, &queries, blockIdx.x * ROWS, shared_address(&ready));
            for (int t = 0; t < tiles; t++) {
                const unsigned stage = stages + t % STAGES * STAGE_BYTES, barrier = shared_address(&full[t % STAGES]);
                wait(shared_address(&empty[t % STAGES]), (t / STAGES + 1) % 2);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(STAGE_BYTES)
                             : "memory");
                load_box(stage, &points, (begin + t) * TILE, barrier);
                load_keys(stage + POINT_BYTES, point_keys + (begin + t) * TILE, barrier);
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        const unsigned left = own + (group - 1) * GROUP_ROWS * DIMS;
        Nearest found = {{2147483647, 2147483647}, {}};
        int sum[2][64];
        wait(shared_address(&ready), 0);
        for (int t = 0; t < tiles; t += 2) {
            // Without a second tile the first is looked through twice.
            const int u = min(t + 1, tiles - 1);
            const unsigned one = stages + t % STAGES * STAGE_BYTES, two = stages + u % STAGES * STAGE_BYTES;
            const int *keys = reinterpret_cast<const int *>(aligned + (one - own) + POINT_BYTES);
            int low[2] = {2147483647, 2147483647};
            wait(shared_address(&full[t % STAGES]), t / STAGES % 2);
            __syncwarp();
            score(sum[0], left, one);
            score(sum[1], left, one + HALF_BYTES);
            wait_products<1>();
            consider(low, sum[0], keys);
            wait(shared_address(&full[u % STAGES]), u / STAGES % 2);
            __syncwarp();
            score(sum[0], left, two);
            wait_products<1>();
            consider(low, sum[1], keys + TILE / 2);
            __syncwarp();
            if (lane == 0 && u != t)
                arrive(shared_address(&empty[t % STAGES]));
            __syncwarp();
            score(sum[1], left, two + HALF_BYTES);
            wait_products<1>();
            keep(found, low, (begin + t) * TILE);
            keys = reinterpret_cast<const int *>(aligned + (two - own) + POINT_BYTES);
            low[0] = low[1] = 2147483647;
            consider(low, sum[0], keys);
            // The compiler moves a wait for products up past arithmetic, but not past a loop such as that of this wait,
            // which is over at once.
            wait(shared_address(&full[u % STAGES]), u / STAGES % 2);
            wait_products<0>();
            consider(low, sum[1], keys + TILE / 2);
            __syncwarp();
            if (lane == 0)
                arrive(shared_address(&empty[u % STAGES]));
            keep(found, low, (begin + u) * TILE);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = blockIdx.x * ROWS + (group - 1) * GROUP_ROWS + warp * 16 + lane / 4 + 8 * half;
            const int square = row < m ? query_sums[row] : 0;
            const unsigned distance = static_cast<unsigned>(found.least[half] + square);
            unsigned long long word = static_cast<unsigned long long>(distance) << 32 | static_cast<unsigned>(found.index[half]);
#pragma unroll
            for (int step = 1; step < 4; step *= 2) {
                const unsigned long long other = __shfl_xor_sync(FULL, word, step);
                word = other < word ? other : word;
            }
            if (row < m && lane % 4 == 0)
                atomicMin(best + row, word);
        }
        __threadfence();
        asm volatile("bar.sync 1, %0;" ::"n"(128 * CONSUMERS) : "memory");
        if (threadIdx.x == 128)
            turn = atomicAdd(tickets + blockIdx.x, 1u);
        asm volatile("bar.sync 1, %0;" ::"n"(128 * CONSUMERS) : "memory");
        const int row = blockIdx.x * ROWS + threadIdx.x - 128;
        if (turn == gridDim.y - 1 && threadIdx.x < 128 + ROWS && row < m) {
            __threadfence();
            const unsigned long long word = __ldcg(best + row);
            indices[row] = static_cast<int>(word & 0xffffffffu);
            distances[row] = static_cast<int>(word >> 32);
        }
    }
}
