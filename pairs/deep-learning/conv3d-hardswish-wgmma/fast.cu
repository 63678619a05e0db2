#include <cuda.h>
#include <cuda_bf16.h>

#define CONSUMERS 2
#define THREADS (128 * (1 + CONSUMERS))
#define ROWS 256
#define COLS 128
#define DEPTH 64
#define WIDE 8
#define HIGH 8
#define DEEP 4
#define STAGES 4
#define LEFT_BYTES (ROWS * DEPTH * 2)
#define RIGHT_BYTES (COLS * DEPTH * 2)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
#define GROUP_ROWS (ROWS / CONSUMERS)
#define WARP_BYTES (16 * COLS * 2)

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

// 64 channels at one place of the window: of the pixels that it sees there, zeros outside, and of COLS weights.
__device__ __forceinline__ void load_stage(unsigned stage, const CUtensorMap *in, const CUtensorMap *weights,
                                           int channel, int place, int x, int y, int z, int image, int col,
                                           unsigned barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(STAGE_BYTES)
                 : "memory");
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(stage), "l"(in), "r"(channel), "r"(x), "r"(y),
                 "r"(z), "r"(image), "r"(barrier) : "memory");
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(stage + LEFT_BYTES), "l"(weights), "r"(channel),
                 "r"(place), "r"(col), "r"(barrier) : "memory");
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
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, adds, 1, 1, 0, 0;\n"
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

__device__ __forceinline__ void put(__nv_bfloat16 *__restrict__ to, int col, int n, float left, float right)
{
    if (n % 2 == 0 && col < n)
        *reinterpret_cast<__nv_bfloat162 *>(to + col) = __floats2bfloat162_rn(left, right);
    if (n % 2 == 0 || col >= n)
        return;
    to[col] = __float2bfloat16(left);
    if (col + 1 < n)
        to[col + 1] = __float2bfloat16(right);
}

__device__ __forceinline__ float activate(float x)
{
    return x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) * (1.0f / 6.0f);
}

// Where two of a warp's results wait: rows of 256 bytes, chunks of 16 exchanged within eight rows.
__device__ __forceinline__ unsigned char *slot(unsigned char *own, int row, int chunk)
{
    return own + row * 256 + (chunk ^ row % 8) * 16;
}

// The first pixel of a tile of WIDE x HIGH x DEEP pixels, its image, and its first output channel.
struct Place {
    int x, y, z, image, col;
};

__device__ __forceinline__ Place place_of(int tile, int d, int h, int w, int col_tiles)
{
    const int across = (w + WIDE - 1) / WIDE, down = (h + HIGH - 1) / HIGH, deep = (d + DEEP - 1) / DEEP;
    const int box = tile / col_tiles;
    return {box % across * WIDE, box / across % down * HIGH, box / (across * down) % deep * DEEP,
            box / (across * down * deep), tile % col_tiles * COLS};
}

// The first channel of a pixel of a tile, nothing for one outside.
__device__ __forceinline__ __nv_bfloat16 *pixel_of(__nv_bfloat16 *out, const Place &first, int row, int n, int d, int h,
                                                   int w)
{
    const int x = first.x + row % WIDE, y = first.y + row / WIDE % HIGH, z = first.z + row / (WIDE * HIGH);
    if (x >= w || y >= h || z >= d)
        return nullptr;
    return out + ((static_cast<size_t>(first.image * d + z) * h + y) * w + x) * n;
}

// Tiles of 256 pixels by 128 channels, each warp group half of the pixels.
// Resident blocks: one warp group loads by tensor maps, two multiply. A row of eight pixels is half of a warp's rows.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap weights,
         const float *__restrict__ bias, __nv_bfloat16 *__restrict__ out, int tiles, int n, int d, int h, int w, int c)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned char *aligned = room + (1023 & (0u - shared_address(room)));
    const unsigned stages = shared_address(aligned);
    const int group = threadIdx.x / 128;
    const int col_tiles = (n + COLS - 1) / COLS, parts = (c + DEPTH - 1) / DEPTH, steps = 27 * parts;
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
                const Place first = place_of(tile, d, h, w, col_tiles);
                for (int step = 0; step < steps; step++, at++) {
                    const int stage = at % STAGES, place = step / parts;
                    wait(shared_address(&empty[stage]), (at / STAGES + 1) % 2);
                    load_stage(stages + stage * STAGE_BYTES, &in, &weights, step % parts * DEPTH, place,
                               first.x + place % 3 - 1, first.y + place / 3 % 3 - 1, first.z + place / 9 - 1,
                               first.image, first.col, shared_address(&full[stage]));
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        const unsigned own_rows = (group - 1) * GROUP_ROWS * DEPTH * 2;
        unsigned char *own = aligned + STAGES * STAGE_BYTES + (threadIdx.x / 32 - 4) * WARP_BYTES;
        int at = 0;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            float sum[2][64];
            for (int step = 0; step < steps; step++, at++) {
                const unsigned stage = stages + at % STAGES * STAGE_BYTES;
                wait(shared_address(&full[at % STAGES]), at / STAGES % 2);
                __syncwarp();
                begin_products();
#pragma unroll
                for (int i = 0; i < DEPTH; i += 16)
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        multiply(sum[half], describe(stage + own_rows + half * 64 * DEPTH * 2 + i * 2),
                                 describe(stage + LEFT_BYTES + i * 2), step + i);
                commit_products();
                wait_products<1>();
                if (step > 0 && lane == 0)
                    arrive(shared_address(&empty[(at - 1) % STAGES]));
                __syncwarp();
            }
            wait_products<0>();
            if (lane == 0)
                arrive(shared_address(&empty[(at - 1) % STAGES]));
            const Place first = place_of(tile, d, h, w, col_tiles);
#pragma unroll
            for (int i = 0; i < COLS / 8; i++) {
                const int j = first.col + lane % 4 * 2 + i * 8;
                const float left = j < n ? bias[j] : 0.0f, right = j + 1 < n ? bias[j + 1] : 0.0f;
#pragma unroll
                for (int e = 0; e < 4; e++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        sum[half][4 * i + e] = activate(sum[half][4 * i + e] + (e % 2 ? right : left));
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int row = (group - 1) * GROUP_ROWS + half * 64 + warp * 16;
                if (n % 8 != 0) {
#pragma unroll
                    for (int part = 0; part < 2; part++) {
                        __nv_bfloat16 *to = pixel_of(out, first, row + lane / 4 + 8 * part, n, d, h, w);
                        if (to == nullptr)
                            continue;
#pragma unroll
                        for (int i = 0; i < COLS / 8; i++)
                            put(to, first.col + lane % 4 * 2 + i * 8, n, sum[half][4 * i + 2 * part],
                                sum[half][4 * i + 2 * part + 1]);
                    }
                    continue;
                }
#pragma unroll
                for (int i = 0; i < COLS / 8; i++)
#pragma unroll
                    for (int part = 0; part < 2; part++)
                        *reinterpret_cast<__nv_bfloat162 *>(slot(own, lane / 4 + 8 * part, i) + lane % 4 * 4) =
                            __floats2bfloat162_rn(sum[half][4 * i + 2 * part], sum[half][4 * i + 2 * part + 1]);
                __syncwarp();
                // Two pixels an instruction instead of sixteen bytes of each of eight.
#pragma unroll
                for (int i = 0; i < 16; i += 2) {
                    const int r = i + lane / 16, j = first.col + lane % 16 * 8;
                    const uint4 eight = *reinterpret_cast<const uint4 *>(slot(own, r, lane % 16));
                    __nv_bfloat16 *to = pixel_of(out, first, row + r, n, d, h, w);
                    if (to != nullptr && j < n)
                        *reinterpret_cast<uint4 *>(to + j) = eight;
                }
                __syncwarp();
            }
            __syncwarp();
        }
    }
}
