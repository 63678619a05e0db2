#include <cuda.h>

#define DIMS 64
#define CONSUMERS 2
#define CONSUMER_WARPS (4 * CONSUMERS)
#define THREADS (128 * (1 + CONSUMERS))
#define ROWS 128
#define TILE 256
#define STAGES 8
#define POINT_BYTES (TILE * DIMS)
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

__device__ __forceinline__ void multiply(int (&d)[128], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, "
        "%72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, "
        "%88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, "
        "%104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, "
        "%120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, adds;\n"
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
          "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63]),
          "+r"(d[64]), "+r"(d[65]), "+r"(d[66]), "+r"(d[67]),
          "+r"(d[68]), "+r"(d[69]), "+r"(d[70]), "+r"(d[71]),
          "+r"(d[72]), "+r"(d[73]), "+r"(d[74]), "+r"(d[75]),
          "+r"(d[76]), "+r"(d[77]), "+r"(d[78]), "+r"(d[79]),
          "+r"(d[80]), "+r"(d[81]), "+r"(d[82]), "+r"(d[83]),
          "+r"(d[84]), "+r"(d[85]), "+r"(d[86]), "+r"(d[87]),
          "+r"(d[88]), "+r"(d[89]), "+r"(d[90]), "+r"(d[91]),
          "+r"(d[92]), "+r"(d[93]), "+r"(d[94]), "+r"(d[95]),
          "+r"(d[96]), "+r"(d[97]), "+r"(d[98]), "+r"(d[99]),
          "+r"(d[100]), "+r"(d[101]), "+r"(d[102]), "+r"(d[103]),
          "+r"(d[104]), "+r"(d[105]), "+r"(d[106]), "+r"(d[107]),
          "+r"(d[108]), "+r"(d[109]), "+r"(d[110]), "+r"(d[111]),
          "+r"(d[112]), "+r"(d[113]), "+r"(d[114]), "+r"(d[115]),
          "+r"(d[116]), "+r"(d[117]), "+r"(d[118]), "+r"(d[119]),
          "+r"(d[120]), "+r"(d[121]), "+r"(d[122]), "+r"(d[123]),
          "+r"(d[124]), "+r"(d[125]), "+r"(d[126]), "+r"(d[127])
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
// distance takes more than 23. After the last point stand keys that no point reaches.
extern "C" __global__ void __launch_bounds__(256)
    squares(const int4 *__restrict__ rows, int *__restrict__ sums, int count, int room, int keys)
{
    const int item = blockIdx.x * 256 + threadIdx.x, row = item / 4;
    int sum = 0;
    if (row < count) {
        const int4 v = rows[item];
        sum = __dp4a(v.x, v.x, __dp4a(v.y, v.y, __dp4a(v.z, v.z, __dp4a(v.w, v.w, 0))));
    }
    sum += __shfl_xor_sync(FULL, sum, 1);
    sum += __shfl_xor_sync(FULL, sum, 2);
    if (row < room && item % 4 == 0)
        sums[row] = keys ? (row < count ? sum * 512 : NONE) + row % TILE : sum;
}

// One warp group loads tiles of points by tensor maps, two multiply 64 queries each by wgmma and keep the least key.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    nearest(const __grid_constant__ CUtensorMap queries, const __grid_constant__ CUtensorMap points,
            const int *__restrict__ query_sums, const int *__restrict__ point_keys,
            unsigned long long *__restrict__ best, int m, int n, int share)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES], ready;
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
        int least[2] = {2147483647, 2147483647}, index[2] = {};
        wait(shared_address(&ready), 0);
        __syncwarp();
        for (int t = 0; t < tiles; t++) {
            const unsigned stage = stages + t % STAGES * STAGE_BYTES;
            const int *keys = reinterpret_cast<const int *>(aligned + (stage - own) + POINT_BYTES);
            int sum[128];
            wait(shared_address(&full[t % STAGES]), t / STAGES % 2);
            __syncwarp();
            begin_products();
            multiply(sum, describe(left), describe(stage), 0);
            multiply(sum, describe(left + 32), describe(stage + 32), 1);
            commit_products();
            wait_products<0>();
            int low[2] = {2147483647, 2147483647};
#pragma unroll
            for (int i = 0; i < TILE / 8; i++) {
                const int2 key = *reinterpret_cast<const int2 *>(keys + 8 * i + lane % 4 * 2);
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    low[half] = min(low[half], key.x - sum[4 * i + 2 * half] * 1024);
                    low[half] = min(low[half], key.y - sum[4 * i + 2 * half + 1] * 1024);
                }
            }
            __syncwarp();
            if (lane == 0)
                arrive(shared_address(&empty[t % STAGES]));
#pragma unroll
            for (int half = 0; half < 2; half++)
                if (low[half] >> 9 < least[half]) {
                    least[half] = low[half] >> 9;
                    index[half] = (begin + t) * TILE + (low[half] & TILE - 1);
                }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = blockIdx.x * ROWS + (group - 1) * GROUP_ROWS + warp * 16 + lane / 4 + 8 * half;
            const int square = row < m ? query_sums[row] : 0;
            const unsigned distance = static_cast<unsigned>(least[half] + square);
            unsigned long long word = static_cast<unsigned long long>(distance) << 32 | static_cast<unsigned>(index[half]);
#pragma unroll
            for (int step = 1; step < 4; step *= 2) {
                const unsigned long long other = __shfl_xor_sync(FULL, word, step);
                word = other < word ? other : word;
            }
            if (row < m && lane % 4 == 0)
                atomicMin(best + row, word);
        }
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
