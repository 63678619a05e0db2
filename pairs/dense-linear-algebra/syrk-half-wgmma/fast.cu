#include <cuda.h>
#include <cuda_fp16.h>

#define CONSUMERS 2
#define THREADS (128 * (1 + CONSUMERS))
#define ROWS 128
#define COLS 152
#define DEPTH 128
#define STAGES 5
#define LEFT_BYTES (ROWS * DEPTH)
#define RIGHT_BYTES (COLS * DEPTH)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
#define GROUP_ROWS (ROWS / CONSUMERS)
#define PART 5
#define WIDE (8 * PART)
#define HIGH (GROUP_ROWS + 4)
#define ACROSS_BYTES (GROUP_ROWS * WIDE * 4)
#define GROUP_BYTES (ACROSS_BYTES + WIDE * HIGH * 4)

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

__device__ __forceinline__ void load_box(unsigned to, const CUtensorMap *map, int depth, int row, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(depth), "r"(row), "r"(barrier) : "memory");
}

__device__ __forceinline__ void load_stage(unsigned stage, const CUtensorMap *a, const CUtensorMap *b, int depth,
                                           int row, int col, unsigned barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(STAGE_BYTES)
                 : "memory");
    load_box(stage, a, depth, row, barrier);
    load_box(stage + LEFT_BYTES, b, depth, col, barrier);
}

// Rows of 128 bytes, eight rows to a swizzled block of 1024.
__device__ __forceinline__ unsigned long long describe(unsigned tile)
{
    return 1ull << 62 | 64ull << 32 | 1ull << 16 | (tile & 0x3ffff) >> 4;
}

__device__ __forceinline__ void multiply(float (&d)[76], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %78, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n152k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, "
        "%72, %73, %74, %75}, "
        "%76, %77, adds, 1, 1, 0, 0;\n"
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
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
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

__device__ __forceinline__ void put(float *to, int n, float left, float right)
{
    if (n % 2 == 0) {
        __stcs(reinterpret_cast<float2 *>(to), make_float2(left, right));
        return;
    }
    to[0] = left;
    to[1] = right;
}

// Four results of a row, as far as they lie left of `end`; 16 bytes aligned.
__device__ __forceinline__ void put_four(float *to, float4 four, int col, int end)
{
    if (col + 4 <= end) {
        __stcs(reinterpret_cast<float4 *>(to), four);
        return;
    }
    const float v[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (col + i < end)
            to[i] = v[i];
}

// The same from `begin` on.
__device__ __forceinline__ void put_four_from(float *to, float4 four, int col, int begin, int end)
{
    if (col >= begin) {
        put_four(to, four, col, end);
        return;
    }
    const float v[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (col + i >= begin && col + i < end)
            to[i] = v[i];
}

__device__ __forceinline__ void group_barrier()
{
    asm volatile("bar.sync %0, 128;" ::"r"(threadIdx.x / 128) : "memory");
}

// 64 rows of a warp group through shared memory, up to 40 columns at a time, once by rows and once turned: 16 bytes a
// lane and whole lines of both images, instead of one sector of each of eight rows an instruction.
__device__ __forceinline__ void store_group(const float (&sum)[COLS / 2], float *across, float *__restrict__ c,
                                            int row, int col, int n, bool below)
{
    const int thread = threadIdx.x % 128, lane = threadIdx.x % 32, own = thread / 32 * 16 + lane / 4;
    float *down = across + GROUP_ROWS * WIDE;
#pragma unroll
    for (int first = 0; first < COLS / 8; first += PART) {
        const int count = min(PART, COLS / 8 - first);
#pragma unroll
        for (int i = 0; i < count; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int r = own + 8 * half, j = 8 * i + lane % 4 * 2;
                const float left = sum[4 * (first + i) + 2 * half], right = sum[4 * (first + i) + 2 * half + 1];
                *reinterpret_cast<float2 *>(across + r * WIDE + j) = make_float2(left, right);
                down[j * HIGH + r] = left;
                down[(j + 1) * HIGH + r] = right;
            }
        group_barrier();
#pragma unroll
        for (int i = 0; i < count; i++) {
            const int at = i * 128 + thread, r = at / (2 * count), j = at % (2 * count) * 4, left = col + 8 * first + j;
            if (row + r < n)
                put_four(c + static_cast<size_t>(row + r) * n + left,
                         *reinterpret_cast<const float4 *>(across + r * WIDE + j), left, below ? n : row + r + 1);
        }
#pragma unroll
        for (int i = 0; i < count; i++) {
            const int at = i * 128 + thread, j = at / 16, r = at % 16 * 4, left = col + 8 * first + j;
            if (left < n)
                put_four_from(c + static_cast<size_t>(left) * n + row + r,
                              *reinterpret_cast<const float4 *>(down + j * HIGH + r), row + r, below ? 0 : left + 1, n);
        }
        group_barrier();
    }
}

// Tiles of a row of tiles that reach the diagonal or lie below it.
__device__ __forceinline__ int tiles_of(int row, int n)
{
    return (min((row + 1) * ROWS, n) + COLS - 1) / COLS;
}

// First row and column of a tile.
__device__ __forceinline__ int2 tile_place(int tile, int n)
{
    int row = 0;
    for (int count = tiles_of(0, n); tile >= count; count = tiles_of(row, n)) {
        tile -= count;
        row++;
    }
    return make_int2(row * ROWS, tile * COLS);
}

// Rows that do not begin at multiples of 16 bytes have no tensor map: one element a thread.
__device__ void any_depth(const __half *__restrict__ a, float *__restrict__ c, int n, int k)
{
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n * n; i += gridDim.x * THREADS) {
        const __half *left = a + static_cast<size_t>(i / n) * k, *right = a + static_cast<size_t>(i % n) * k;
        float sum = 0.0f;
        for (int j = 0; j < k; j++)
            sum = fmaf(__half2float(left[j]), __half2float(right[j]), sum);
        c[i] = sum;
    }
}

// Only tiles with something on or below the diagonal are computed; 152 columns make 264 of them for 3072 rows, two for
// each multiprocessor. Resident blocks: one warp group loads by tensor maps, two multiply.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    syrk(const __grid_constant__ CUtensorMap map, const __grid_constant__ CUtensorMap other,
         const __half *__restrict__ a, float *__restrict__ c, int n, int k)
{
    if (k % 8 != 0) {
        any_depth(a, c, n, k);
        return;
    }
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned char *aligned = room + (1023 & (0u - shared_address(room)));
    const unsigned stages = shared_address(aligned);
    const int group = threadIdx.x / 128;
    int tiles = 0;
    for (int row = 0; row * ROWS < n; row++)
        tiles += tiles_of(row, n);
    const int steps = (k + DEPTH / 2 - 1) / (DEPTH / 2);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&full[s]), 1);
            init_barrier(shared_address(&empty[s]), 4 * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();

    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            int at = 0;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                const int2 place = tile_place(tile, n);
                for (int step = 0; step < steps; step++, at++) {
                    const int stage = at % STAGES;
                    wait(shared_address(&empty[stage]), (at / STAGES + 1) % 2);
                    load_stage(stages + stage * STAGE_BYTES, &map, &other, step * (DEPTH / 2), place.x,
                               place.y, shared_address(&full[stage]));
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        const unsigned own_rows = (group - 1) * GROUP_ROWS * DEPTH;
        int at = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int2 place = tile_place(tile, n);
            const int row = place.x + (group - 1) * GROUP_ROWS + warp * 16 + lane / 4;
            float sum[COLS / 2];
            for (int step = 0; step < steps; step++, at++) {
                const unsigned stage = stages + at % STAGES * STAGE_BYTES;
                wait(shared_address(&full[at % STAGES]), at / STAGES % 2);
                __syncwarp();
                begin_products();
#pragma unroll
                for (int i = 0; i < DEPTH; i += 32)
                    multiply(sum, describe(stage + own_rows + i), describe(stage + LEFT_BYTES + i), step + i);
                commit_products();
                wait_products<1>();
                if (lane == 0 && step > 0)
                    arrive(shared_address(&empty[(at - 1) % STAGES]));
                __syncwarp();
            }
            wait_products<0>();
            if (lane == 0)
                arrive(shared_address(&empty[(at - 1) % STAGES]));
            __syncwarp();
            const bool below = place.y + COLS <= place.x;
            if (n % 4 == 0) {
                unsigned char *shared = aligned + STAGES * STAGE_BYTES + (group - 1) * GROUP_BYTES;
                store_group(sum, reinterpret_cast<float *>(shared), c, place.x + (group - 1) * GROUP_ROWS, place.y, n,
                            below);
                continue;
            }
            const int col = place.y + lane % 4 * 2;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int r = row + 8 * half, last = below ? n : r;
                if (r >= n)
                    continue;
                float *across = c + static_cast<size_t>(r) * n + col, *down = c + static_cast<size_t>(col) * n + r;
#pragma unroll
                for (int i = 0; i < COLS / 8; i++) {
                    const float left = sum[4 * i + 2 * half], right = sum[4 * i + 2 * half + 1];
                    // Eight lanes hold eight rows of a column: the mirror image is whole sectors, too.
                    if (col + 8 * i < last) {
                        put(across + 8 * i, n, left, right);
                        __stcs(down, left);
                        __stcs(down + n, right);
                    } else if (col + 8 * i == last) {
                        across[8 * i] = left;
                    }
                    down += static_cast<size_t>(8) * n;
                }
            }
            __syncwarp();
        }
    }
}
