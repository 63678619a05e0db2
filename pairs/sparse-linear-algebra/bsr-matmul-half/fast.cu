#include <cuda.h>
#include <cuda_fp16.h>

#define BLOCK 64
#define THREADS 160
#define STAGES 2
#define COLS 256
#define LEFT_BYTES (BLOCK * BLOCK * 2)
#define BOX_BYTES (BLOCK * BLOCK * 2)
#define STAGE_BYTES (LEFT_BYTES + 4 * BOX_BYTES)

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

__device__ __forceinline__ void expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// 64 rows of 128 bytes.
__device__ __forceinline__ void load_box(unsigned to, const CUtensorMap *map, int x, int y, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// Rows of 128 bytes, eight rows to a swizzled block of 1024.
__device__ __forceinline__ unsigned long long describe(unsigned tile)
{
    return 1ull << 62 | 64ull << 32 | 1ull << 16 | (tile & 0x3ffff) >> 4;
}

// A right factor by rows of columns: eight rows to a swizzled block, the next 64 columns a box further on.
__device__ __forceinline__ unsigned long long describe_right(unsigned tile)
{
    return 1ull << 62 | 64ull << 32 | static_cast<unsigned long long>(BOX_BYTES / 16) << 16 | (tile & 0x3ffff) >> 4;
}

__device__ __forceinline__ void add_product(float (&d)[128], unsigned long long a, unsigned long long b)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
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
        "%128, %129, adds, 1, 1, 0, 1;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
          "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
          "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
          "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]),
          "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]),
          "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
          "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
          "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
          "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),
          "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
          "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),
          "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
          "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),
          "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
          "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
          "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
          "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]),
          "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
        : "l"(a), "l"(b));
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

// Rows of b that do not begin at multiples of 16 bytes have no tensor map: one element a thread.
__device__ void any_width(const int *__restrict__ columns, const __half *__restrict__ blocks,
                          const __half *__restrict__ b, float *__restrict__ c, int first, int count, int n)
{
    for (int i = blockIdx.y * THREADS + threadIdx.x; i < BLOCK * n; i += gridDim.y * THREADS) {
        const int row = i / n, col = i % n;
        float sum = 0.0f;
        for (int e = first; e < first + count; e++)
            for (int j = 0; j < BLOCK; j++)
                sum = fmaf(__half2float(blocks[(static_cast<size_t>(e) * BLOCK + row) * BLOCK + j]),
                           __half2float(b[(static_cast<size_t>(columns[e]) * BLOCK + j) * n + col]), sum);
        c[(static_cast<size_t>(blockIdx.x) * BLOCK + row) * n + col] = sum;
    }
}

// A row of blocks by 256 columns: a warp loads by tensor maps, a warp group multiplies by wgmma. Blocks at work at the
// same time share 256 columns of b in the L2 cache; of the two on a multiprocessor one stores while the other multiplies.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    multiply(const __grid_constant__ CUtensorMap left, const __grid_constant__ CUtensorMap right,
             const int *__restrict__ offsets, const int *__restrict__ columns, const __half *__restrict__ blocks,
             const __half *__restrict__ b, float *__restrict__ c, int n)
{
    const int first = offsets[blockIdx.x], count = offsets[blockIdx.x + 1] - first, col = blockIdx.y * COLS;
    if (n % 8 != 0) {
        any_width(columns, blocks, b, c, first, count, n);
        return;
    }
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    const unsigned stages = (shared_address(room) + 1023) & ~1023u;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&full[s]), 1);
            init_barrier(shared_address(&empty[s]), 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (warp == 4) {
        if (lane == 0 && count > 0) {
            int next = columns[first];
            for (int e = 0; e < count; e++) {
                const unsigned stage = stages + e % STAGES * STAGE_BYTES, barrier = shared_address(&full[e % STAGES]);
                const int column = next;
                next = columns[first + min(e + 1, count - 1)];
                wait(shared_address(&empty[e % STAGES]), (e / STAGES + 1) % 2);
                expect(barrier, STAGE_BYTES);
                load_box(stage, &left, 0, (first + e) * BLOCK, barrier);
#pragma unroll
                for (int j = 0; j < 4; j++)
                    load_box(stage + LEFT_BYTES + j * BOX_BYTES, &right, col + j * 64, column * BLOCK, barrier);
            }
        }
        return;
    }
    float sum[128] = {};
    for (int e = 0; e < count; e++) {
        const unsigned stage = stages + e % STAGES * STAGE_BYTES;
        wait(shared_address(&full[e % STAGES]), e / STAGES % 2);
        __syncwarp();
        begin_products();
#pragma unroll
        for (int i = 0; i < BLOCK; i += 16)
            add_product(sum, describe(stage + i * 2), describe_right(stage + LEFT_BYTES + i * 128));
        commit_products();
        wait_products<1>();
        if (lane == 0 && e > 0)
            arrive(shared_address(&empty[(e - 1) % STAGES]));
        __syncwarp();
    }
    wait_products<0>();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const size_t row = static_cast<size_t>(blockIdx.x) * BLOCK + warp * 16 + lane / 4 + 8 * half;
#pragma unroll
        for (int i = 0; i < COLS / 8; i++) {
            const int j = col + i * 8 + lane % 4 * 2;
            if (j < n)
                __stcs(reinterpret_cast<float2 *>(c + row * n + j),
                       make_float2(sum[4 * i + 2 * half], sum[4 * i + 2 * half + 1]));
        }
    }
}
