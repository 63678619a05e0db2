#include <cuda.h>

#define BOX_WORDS 32
#define CONSUMERS 2
#define CONSUMER_WARPS (4 * CONSUMERS)
#define THREADS (128 * (1 + CONSUMERS))
#define ROWS 128
#define TILE 256
#define STAGES 3
#define QUERY_BOX (ROWS * 128)
#define ENTRY_BOX (TILE * 128)
#define STAGE_BYTES (2 * ENTRY_BOX)
#define GROUP_ROWS (ROWS / CONSUMERS)
#define STEP (1 << 19)
#define FULL 0xffffffffu

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

// Rows of 128 bytes, eight rows to a swizzled block of 1024.
__device__ __forceinline__ unsigned long long describe(unsigned tile)
{
    return 1ull << 62 | 64ull << 32 | 1ull << 16 | (tile & 0x3ffff) >> 4;
}

__device__ __forceinline__ void load_box(unsigned to, const CUtensorMap *map, int word, int row, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(word), "r"(row), "r"(barrier) : "memory");
}

// Bits as bytes of 1 and -1: the product of two codes is 256 less twice their distance. One warp group loads tiles of
// entries by tensor maps, two multiply 64 queries each by wgmma; product and number of an entry are one word.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    match(const __grid_constant__ CUtensorMap queries, const __grid_constant__ CUtensorMap entries,
          unsigned *__restrict__ nearest, int count, int n, int share)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES], ready;
    const unsigned own = (shared_address(room) + 1023) & ~1023u, stages = own + 2 * QUERY_BOX;
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
            const unsigned first = shared_address(&ready);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(first), "n"(2 * QUERY_BOX)
                         : "memory");
            load_box(own, &queries, 0, blockIdx.x * ROWS, first);
            load_box(own + QUERY_BOX, &queries, BOX_WORDS, blockIdx.x * ROWS, first);
            for (int t = 0; t < tiles; t++) {
                const unsigned stage = stages + t % STAGES * STAGE_BYTES, barrier = shared_address(&full[t % STAGES]);
                wait(shared_address(&empty[t % STAGES]), (t / STAGES + 1) % 2);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(STAGE_BYTES)
                             : "memory");
                load_box(stage, &entries, 0, (begin + t) * TILE, barrier);
                load_box(stage + ENTRY_BOX, &entries, BOX_WORDS, (begin + t) * TILE, barrier);
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, at = lane % 4 * 2;
        const unsigned left = own + (group - 1) * GROUP_ROWS * 128;
        unsigned best[2] = {0xffffffffu, 0xffffffffu};
        wait(shared_address(&ready), 0);
        __syncwarp();
        for (int t = 0; t < tiles; t++) {
            const unsigned stage = stages + t % STAGES * STAGE_BYTES;
            const int base = (begin + t) * TILE, most = n - base - at;
            int sum[128];
            wait(shared_address(&full[t % STAGES]), t / STAGES % 2);
            __syncwarp();
            begin_products();
#pragma unroll
            for (int i = 0; i < 8; i++)
                multiply(sum, describe(left + i / 4 * QUERY_BOX + i % 4 * 32),
                         describe(stage + i / 4 * ENTRY_BOX + i % 4 * 32), i);
            commit_products();
            wait_products<0>();
            if (lane == 0)
                arrive(shared_address(&empty[t % STAGES]));
            __syncwarp();
            // One more than a column: where the sum is 0 less a product, ptxas 13.0 loses the product's sign.
            int low[2] = {2147483647, 2147483647};
            if (base + TILE <= n) {
#pragma unroll
                for (int i = 0; i < 128; i++)
                    low[i / 2 % 2] = min(low[i / 2 % 2], 1 + i / 4 * 8 + i % 2 - sum[i] * STEP);
            } else {
#pragma unroll
                for (int i = 0; i < 128; i++)
                    if (i / 4 * 8 + i % 2 < most)
                        low[i / 2 % 2] = min(low[i / 2 % 2], 1 + i / 4 * 8 + i % 2 - sum[i] * STEP);
            }
#pragma unroll
            for (int half = 0; half < 2; half++)
                if (low[half] != 2147483647)
                    best[half] = min(best[half], static_cast<unsigned>(low[half] - 1 + 256 * STEP + base + at));
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int row = blockIdx.x * ROWS + (group - 1) * GROUP_ROWS + warp * 16 + lane / 4 + 8 * half;
            unsigned found = best[half];
            found = min(found, __shfl_xor_sync(FULL, found, 1));
            found = min(found, __shfl_xor_sync(FULL, found, 2));
            if (lane % 4 == 0 && row < count)
                atomicMin(nearest + row, found);
        }
    }
}
