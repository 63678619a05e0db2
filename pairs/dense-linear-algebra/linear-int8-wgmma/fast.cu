#include <cuda.h>
#include <cuda_bf16.h>

#define CONSUMERS 2
#define THREADS (128 * (1 + CONSUMERS))
#define ROWS 128
#define COLS 256
#define DEPTH 128
#define STAGES 4
#define LEFT_BYTES (ROWS * DEPTH)
#define RIGHT_BYTES (COLS * DEPTH)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
#define GROUP_ROWS (ROWS / CONSUMERS)
#define WARP_BYTES (16 * 128 * 2)
#define BAND 16

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

__device__ __forceinline__ void multiply(int (&d)[128], unsigned long long a, unsigned long long b)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, 1, 0;\n"
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
        : "l"(a), "l"(b));
}

__device__ __forceinline__ void put(__nv_bfloat16 *__restrict__ c, int row, int col, int m, int n, float left,
                                    float right)
{
    if (row >= m || col >= n)
        return;
    __nv_bfloat16 *to = c + static_cast<size_t>(row) * n + col;
    if (n % 2 == 0) {
        *reinterpret_cast<__nv_bfloat162 *>(to) = __floats2bfloat162_rn(left, right);
        return;
    }
    to[0] = __float2bfloat16(left);
    if (col + 1 < n)
        to[1] = __float2bfloat16(right);
}

// Where two of a warp's results wait: rows of 256 bytes, chunks of 16 exchanged within eight rows.
__device__ __forceinline__ unsigned char *slot(unsigned char *own, int row, int chunk)
{
    return own + row * 256 + (chunk ^ row % 8) * 16;
}

// Sixteen rows of 128 columns of a warp, two rows an instruction instead of sixteen bytes of each of eight.
__device__ __forceinline__ void store_rows(unsigned char *own, __nv_bfloat16 *__restrict__ c, int row, int col, int m,
                                           int n)
{
    const int lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
        const int r = i + lane / 16, j = col + lane % 16 * 8;
        const uint4 eight = *reinterpret_cast<const uint4 *>(slot(own, r, lane % 16));
        if (row + r < m && j < n)
            *reinterpret_cast<uint4 *>(c + static_cast<size_t>(row + r) * n + j) = eight;
    }
    __syncwarp();
}

// The first row and column of a tile. Tiles are counted down bands of 16 rows of tiles, so that blocks at work at the
// same time share rows and columns in the L2 cache.
__device__ __forceinline__ int2 place_of(int tile, int row_tiles, int col_tiles)
{
    const int band = tile / (BAND * col_tiles), first = band * BAND, rows = min(BAND, row_tiles - first);
    const int inside = tile - first * col_tiles;
    return make_int2((first + inside % rows) * ROWS, inside / rows * COLS);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
           const float *__restrict__ row_scale, const float *__restrict__ col_scale, __nv_bfloat16 *__restrict__ c,
           int m, int n, int k)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned char *aligned = room + (1023 & (0u - shared_address(room)));
    const unsigned stages = shared_address(aligned);
    const int group = threadIdx.x / 128;
    const int row_tiles = (m + ROWS - 1) / ROWS, col_tiles = (n + COLS - 1) / COLS, tiles = row_tiles * col_tiles;
    const int steps = (k + DEPTH - 1) / DEPTH;
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
                const int2 place = place_of(tile, row_tiles, col_tiles);
                for (int step = 0; step < steps; step++, at++) {
                    const int stage = at % STAGES;
                    wait(shared_address(&empty[stage]), (at / STAGES + 1) % 2);
                    load_stage(stages + stage * STAGE_BYTES, &a, &b, step * DEPTH, place.x, place.y,
                               shared_address(&full[stage]));
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        const unsigned own_rows = (group - 1) * GROUP_ROWS * DEPTH;
        unsigned char *own = aligned + STAGES * STAGE_BYTES + (threadIdx.x / 32 - 4) * WARP_BYTES;
        int sum[128];
        int at = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
#pragma unroll
            for (int i = 0; i < 128; i++)
                sum[i] = 0;
            for (int step = 0; step < steps; step++, at++) {
                const unsigned stage = stages + at % STAGES * STAGE_BYTES;
                wait(shared_address(&full[at % STAGES]), at / STAGES % 2);
                __syncwarp();
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int i = 0; i < DEPTH; i += 32)
                    multiply(sum, describe(stage + own_rows + i), describe(stage + LEFT_BYTES + i));
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (step > 0 && lane == 0)
                    arrive(shared_address(&empty[(at - 1) % STAGES]));
                __syncwarp();
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (lane == 0)
                arrive(shared_address(&empty[(at - 1) % STAGES]));

            const int2 place = place_of(tile, row_tiles, col_tiles);
            const int row = place.x + (group - 1) * GROUP_ROWS + warp * 16, upper_row = row + lane / 4;
            const float upper = upper_row < m ? row_scale[upper_row] : 0.0f;
            const float lower = upper_row + 8 < m ? row_scale[upper_row + 8] : 0.0f;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int col = place.y + half * 128;
#pragma unroll
                for (int i = 0; i < 16; i++) {
                    const int j = col + lane % 4 * 2 + i * 8, *v = sum + 64 * half + 4 * i;
                    const float left = j < n ? col_scale[j] : 0.0f, right = j + 1 < n ? col_scale[j + 1] : 0.0f;
                    if (n % 8 == 0) {
                        unsigned char *to = slot(own, lane / 4, i) + lane % 4 * 4;
                        *reinterpret_cast<__nv_bfloat162 *>(to) =
                            __floats2bfloat162_rn(v[0] * upper * left, v[1] * upper * right);
                        *reinterpret_cast<__nv_bfloat162 *>(to + 8 * 256) =
                            __floats2bfloat162_rn(v[2] * lower * left, v[3] * lower * right);
                    } else {
                        put(c, upper_row, j, m, n, v[0] * upper * left, v[1] * upper * right);
                        put(c, upper_row + 8, j, m, n, v[2] * lower * left, v[3] * lower * right);
                    }
                }
                if (n % 8 == 0)
                    store_rows(own, c, row, col, m, n);
            }
            __syncwarp();
        }
    }
}
