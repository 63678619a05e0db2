#include <cuda.h>
#include <cuda_bf16.h>

#define CONSUMERS 2
#define THREADS (128 * (1 + CONSUMERS))
#define ROWS 128
#define COLS 256
#define DEPTH 64
#define STAGES 4
#define LEFT_BYTES (ROWS * DEPTH * 2)
#define RIGHT_BYTES (COLS * DEPTH * 2)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
#define GROUP_ROWS (ROWS / CONSUMERS)
#define BOX_BYTES (16 * 128)
#define BAND 16
#define ALL 0xffffffffu

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

__device__ __forceinline__ void multiply(float (&d)[128], unsigned long long a, unsigned long long b)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
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
        "%128, %129, adds, 1, 1, 0, 0;\n"
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

// The sum over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float value)
{
    value += __shfl_xor_sync(ALL, value, 1);
    return value + __shfl_xor_sync(ALL, value, 2);
}

// x / (1 + exp(-x)); no care for denormal numbers, which the sum with 1 loses.
__device__ __forceinline__ float swish(float x)
{
    float power, part;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.4426950408889634f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(part) : "f"(1.0f + power));
    return x * part;
}

__device__ __forceinline__ unsigned pack(float left, float right)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(left, right);
    return *reinterpret_cast<const unsigned *>(&both);
}

__device__ __forceinline__ void store_matrices(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
                 "r"(d) : "memory");
}

// Once all lanes have written their results, a box of them leaves by the copy engine while the warp goes on.
__device__ __forceinline__ void store_box(const CUtensorMap *map, unsigned from, int col, int row)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                     "r"(col), "r"(row), "r"(from) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
    __syncwarp();
}

// All but the last PENDING boxes have been read.
template <int PENDING> __device__ __forceinline__ void wait_boxes()
{
    if (threadIdx.x % 32 == 0)
        asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
    __syncwarp();
}

// Swish and normalisation of 64 features of two rows, of which each of four lanes has 16. The results go to `box`,
// rows of 128 bytes with chunks of 16 exchanged within eight rows.
__device__ __forceinline__ void normalise(float *v, const float *__restrict__ bias, const float *__restrict__ weight,
                                          const float *__restrict__ shift, unsigned box, float eps)
{
    const int lane = threadIdx.x % 32;
    float mean[2] = {}, rstd[2] = {};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float2 add = *reinterpret_cast<const float2 *>(bias + 8 * i);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float &left = v[4 * i + 2 * half], &right = v[4 * i + 2 * half + 1];
            left = swish(left + add.x);
            right = swish(right + add.y);
            mean[half] += left + right;
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        mean[half] = row_sum(mean[half]) * (1.0f / 64.0f);
        float variance = 0.0f;
#pragma unroll
        for (int i = 2 * half; i < 32; i += 4) {
            v[i] -= mean[half];
            v[i + 1] -= mean[half];
            variance = fmaf(v[i], v[i], fmaf(v[i + 1], v[i + 1], variance));
        }
        rstd[half] = rsqrtf(row_sum(variance) * (1.0f / 64.0f) + eps);
    }
    wait_boxes<1>();
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
        unsigned both[4];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const float2 by = *reinterpret_cast<const float2 *>(weight + 8 * (i + j));
            const float2 add = *reinterpret_cast<const float2 *>(shift + 8 * (i + j));
#pragma unroll
            for (int half = 0; half < 2; half++)
                both[2 * j + half] = pack(fmaf(v[4 * (i + j) + 2 * half] * rstd[half], by.x, add.x),
                                          fmaf(v[4 * (i + j) + 2 * half + 1] * rstd[half], by.y, add.y));
        }
        store_matrices(box + lane % 16 * 128 + ((i + lane / 16) ^ lane % 8) * 16, both[0], both[1], both[2], both[3]);
    }
}

// The first row and column of a tile. Tiles are counted down bands of 16 rows of tiles, so that blocks at work at the
// same time share rows and columns in the L2 cache.
__device__ __forceinline__ int2 place_of(int tile, int row_tiles, int col_tiles)
{
    const int band = tile / (BAND * col_tiles), first = band * BAND, rows = min(BAND, row_tiles - first);
    const int inside = tile - first * col_tiles;
    return make_int2((first + inside % rows) * ROWS, inside / rows * COLS);
}

// A group of 64 features is a quarter of a warp's columns, so its mean and variance never leave the warp.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
           const float *__restrict__ bias, const float *__restrict__ weight, const float *__restrict__ shift,
           const __grid_constant__ CUtensorMap out, int m, int n, int k, float eps)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    const unsigned stages = (shared_address(room) + 1023) & ~1023u;
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
                    load_stage(stages + stage * STAGE_BYTES, &x, &w, step * DEPTH, place.x, place.y,
                               shared_address(&full[stage]));
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        const unsigned own_rows = (group - 1) * GROUP_ROWS * DEPTH * 2;
        // Two boxes for a warp's results.
        const unsigned own = stages + STAGES * STAGE_BYTES + (threadIdx.x / 32 - 4) * 2 * BOX_BYTES;
        float sum[128];
        int at = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
#pragma unroll
            for (int i = 0; i < 128; i++)
                sum[i] = 0.0f;
            for (int step = 0; step < steps; step++, at++) {
                const unsigned stage = stages + at % STAGES * STAGE_BYTES;
                wait(shared_address(&full[at % STAGES]), at / STAGES % 2);
                __syncwarp();
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int i = 0; i < DEPTH; i += 16)
                    multiply(sum, describe(stage + own_rows + i * 2), describe(stage + LEFT_BYTES + i * 2));
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
            const int row = place.x + (group - 1) * GROUP_ROWS + warp * 16;
            wait_boxes<0>();
#pragma unroll
            for (int set = 0; set < COLS / 64; set++) {
                const int col = place.y + 64 * set, j = col + lane % 4 * 2;
                if (col >= n)
                    continue;
                const unsigned box = own + set % 2 * BOX_BYTES;
                normalise(sum + 32 * set, bias + j, weight + j, shift + j, box, eps);
                store_box(&out, box, col, row);
            }
            __syncwarp();
        }
        wait_boxes<0>();
    }
}
