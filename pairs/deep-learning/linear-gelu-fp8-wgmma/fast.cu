#include <cuda.h>

#define CONSUMERS 2
#define THREADS (128 * (1 + CONSUMERS))
#define ROWS 256
#define COLS 128
#define DEPTH 128
#define STAGES 4
#define LEFT_BYTES (ROWS * DEPTH)
#define RIGHT_BYTES (COLS * DEPTH)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
#define GROUP_ROWS (ROWS / CONSUMERS)
#define WARP_BYTES (16 * COLS)
#define BAND 8
#define TOGETHER 2

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

__device__ __forceinline__ void multiply(float (&d)[64], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, adds, 1, 1;\n"
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
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
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

__device__ __forceinline__ unsigned short two(float left, float right)
{
    unsigned short both;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(right), "f"(left));
    return both;
}

__device__ __forceinline__ void put(unsigned char *__restrict__ c, int row, int col, int m, int n, float left,
                                    float right)
{
    if (row >= m || col >= n)
        return;
    unsigned char *to = c + static_cast<size_t>(row) * n + col;
    const unsigned short both = two(left, right);
    if (n % 2 == 0) {
        *reinterpret_cast<unsigned short *>(to) = both;
        return;
    }
    to[0] = both & 0xff;
    if (col + 1 < n)
        to[1] = both >> 8;
}

// x * (1 + tanh(u)) * by, with one instruction for tanh.
__device__ __forceinline__ float gelu(float x, float by)
{
    const float u = x * fmaf(x * x, 0.7978845608f * 0.044715f, 0.7978845608f), half = x * by;
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(u));
    return fmaf(half, y, half);
}

// Where two of a warp's results wait: rows of 128 bytes, chunks of 16 exchanged within eight rows.
__device__ __forceinline__ unsigned char *slot(unsigned char *own, int row, int chunk)
{
    return own + row * 128 + (chunk ^ row % 8) * 16;
}

// Sixteen rows of 128 columns of a warp, four rows an instruction instead of eight bytes of each of eight.
__device__ __forceinline__ void store_rows(unsigned char *own, unsigned char *__restrict__ c, int row, int col, int m,
                                           int n)
{
    const int lane = threadIdx.x % 32;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16; i += 4) {
        const int r = i + lane / 8, j = col + lane % 8 * 16;
        const uint4 sixteen = *reinterpret_cast<const uint4 *>(slot(own, r, lane % 8));
        if (row + r < m && j < n)
            *reinterpret_cast<uint4 *>(c + static_cast<size_t>(row + r) * n + j) = sixteen;
    }
    __syncwarp();
}

// The first row and column of a tile. Tiles are counted down bands of rows of tiles, so that blocks at work at the same
// time share rows and columns in the L2 cache.
__device__ __forceinline__ int2 place_of(int tile, int row_tiles, int col_tiles)
{
    const int band = tile / (BAND * col_tiles), first = band * BAND, rows = min(BAND, row_tiles - first);
    const int inside = tile - first * col_tiles;
    return make_int2((first + inside % rows) * ROWS, inside / rows * COLS);
}

// Resident blocks on 256x128 tiles: one warp group loads by tensor maps, two multiply 8-bit floats.
// The products of each 256 of k are summed alone, then added in single precision: the tensor cores keep fewer bits.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
           const float *__restrict__ bias, unsigned char *__restrict__ c, float in_scale, float out_scale, int m, int n,
           int k)
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
        int at = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const int2 place = place_of(tile, row_tiles, col_tiles);
            const int first = place.x + (group - 1) * GROUP_ROWS + warp * 16;
            float sum[2][64] = {};
            for (int step = 0; step < steps; step += TOGETHER) {
                const int count = min(TOGETHER, steps - step);
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    float part[64];
                    for (int s = 0; s < count; s++) {
                        const unsigned stage = stages + (at + s) % STAGES * STAGE_BYTES;
                        if (half == 0)
                            wait(shared_address(&full[(at + s) % STAGES]), (at + s) / STAGES % 2);
                        __syncwarp();
                        begin_products();
#pragma unroll
                        for (int i = 0; i < DEPTH; i += 32)
                            multiply(part, describe(stage + own_rows + half * 64 * DEPTH + i),
                                     describe(stage + LEFT_BYTES + i), s + i);
                        commit_products();
                    }
                    wait_products<0>();
                    if (half == 1) {
                        if (lane == 0)
                            for (int s = 0; s < count; s++)
                                arrive(shared_address(&empty[(at + s) % STAGES]));
                        __syncwarp();
                    }
#pragma unroll
                    for (int i = 0; i < 64; i++)
                        sum[half][i] += part[i];
                }
                at += count;
            }
#pragma unroll
            for (int i = 0; i < COLS / 8; i++) {
                const int j = place.y + lane % 4 * 2 + i * 8;
                const float left = j < n ? bias[j] : 0.0f, right = j + 1 < n ? bias[j + 1] : 0.0f;
#pragma unroll
                for (int e = 0; e < 4; e++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        sum[half][4 * i + e] =
                            gelu(fmaf(sum[half][4 * i + e], in_scale, e % 2 ? right : left), 0.5f * out_scale);
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int row = first + half * 64;
                if (n % 16 == 0) {
#pragma unroll
                    for (int i = 0; i < COLS / 8; i++)
#pragma unroll
                        for (int part = 0; part < 2; part++)
                            *reinterpret_cast<unsigned short *>(slot(own, lane / 4 + 8 * part, i / 2) + i % 2 * 8 +
                                                                lane % 4 * 2) =
                                two(sum[half][4 * i + 2 * part], sum[half][4 * i + 2 * part + 1]);
                    store_rows(own, c, row, place.y, m, n);
                } else {
#pragma unroll
                    for (int i = 0; i < COLS / 8; i++) {
                        const int j = place.y + lane % 4 * 2 + i * 8;
                        const float *v = sum[half] + 4 * i;
                        put(c, row + lane / 4, j, m, n, v[0], v[1]);
                        put(c, row + lane / 4 + 8, j, m, n, v[2], v[3]);
                    }
                }
            }
            __syncwarp();
        }
    }
}
