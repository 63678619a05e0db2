#include <cuda.h>
#include <cuda_bf16.h>

#define CONSUMERS 3
#define THREADS (128 * (1 + CONSUMERS))
#define ROWS 192
#define COLS 256
#define DEPTH 64
#define WIDE 4
#define HIGH 4
#define IMAGES 4
#define STAGES 3
#define LEFT_BYTES (ROWS * DEPTH * 2)
#define RIGHT_BYTES (COLS * DEPTH * 2)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
#define GROUP_ROWS (ROWS / CONSUMERS)
#define WARP_BYTES (16 * 128 * 2)

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

// 64 channels at one place of the window, of every other pixel that it sees there, zeros outside.
__device__ __forceinline__ void load_pixels(unsigned to, const CUtensorMap *in, int channel, int x, int y, int image,
                                            unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to), "l"(in), "r"(channel), "r"(x), "r"(y), "r"(image),
                 "r"(barrier) : "memory");
}

__device__ __forceinline__ void load_weights(unsigned to, const CUtensorMap *weights, int channel, int place, int col,
                                             unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(weights), "r"(channel), "r"(place), "r"(col),
                 "r"(barrier) : "memory");
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

// Where two of a warp's results wait: rows of 256 bytes, chunks of 16 exchanged within eight rows.
__device__ __forceinline__ unsigned char *slot(unsigned char *own, int row, int chunk)
{
    return own + row * 256 + (chunk ^ row % 8) * 16;
}

// The first pixel of a box of WIDE x HIGH pixels in each of IMAGES images, and the first of these.
struct Place {
    int x, y, image;
};

__device__ __forceinline__ Place place_of(int box, int h, int w)
{
    const int across = (w + WIDE - 1) / WIDE, down = (h + HIGH - 1) / HIGH;
    return {box % across * WIDE, box / across % down * HIGH, box / (across * down) * IMAGES};
}

// The first channel of a pixel of a box, nothing for one outside.
__device__ __forceinline__ __nv_bfloat16 *pixel_of(__nv_bfloat16 *out, const Place &first, int row, int n, int h, int w,
                                                   int images)
{
    const int x = first.x + row % WIDE, y = first.y + row / WIDE % HIGH, image = first.image + row / (WIDE * HIGH);
    if (x >= w || y >= h || image >= images)
        return nullptr;
    return out + ((static_cast<size_t>(image) * h + y) * w + x) * n;
}

// Boxes of 4x4 pixels in each of four images fill 28x28 images without a rest. Three of them by 256 channels are a tile;
// for 32 such images these are 131, one for a multiprocessor.
// Resident blocks: one warp group loads by tensor maps, three multiply, a box each. h and w are the result's.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    conv(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap weights,
         const float *__restrict__ bias, __nv_bfloat16 *__restrict__ out, int tiles, int n, int h, int w, int c,
         int images)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned char *aligned = room + (1023 & (0u - shared_address(room)));
    const unsigned stages = shared_address(aligned);
    const int group = threadIdx.x / 128;
    const int col_tiles = (n + COLS - 1) / COLS, parts = (c + DEPTH - 1) / DEPTH, steps = 9 * parts;
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
        asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
        if (threadIdx.x == 0) {
            int at = 0;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                Place first[CONSUMERS];
#pragma unroll
                for (int g = 0; g < CONSUMERS; g++)
                    first[g] = place_of(tile / col_tiles * CONSUMERS + g, h, w);
                for (int step = 0; step < steps; step++, at++) {
                    const int stage = at % STAGES, place = step / parts;
                    wait(shared_address(&empty[stage]), (at / STAGES + 1) % 2);
                    const unsigned to = stages + stage * STAGE_BYTES, barrier = shared_address(&full[stage]);
                    const int channel = step % parts * DEPTH, x = place % 3 - 1, y = place / 3 - 1;
                    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                                 "n"(STAGE_BYTES) : "memory");
                    load_weights(to + LEFT_BYTES, &weights, channel, place, tile % col_tiles * COLS, barrier);
#pragma unroll
                    for (int g = 0; g < CONSUMERS; g++)
                        load_pixels(to + g * GROUP_ROWS * DEPTH * 2, &in, channel, 2 * first[g].x + x,
                                    2 * first[g].y + y, first[g].image, barrier);
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
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
                        multiply(sum[half], describe(stage + own_rows + i * 2),
                                 describe(stage + LEFT_BYTES + half * RIGHT_BYTES / 2 + i * 2), step + i);
                commit_products();
                wait_products<1>();
                if (step > 0 && lane == 0)
                    arrive(shared_address(&empty[(at - 1) % STAGES]));
                __syncwarp();
            }
            wait_products<0>();
            if (lane == 0)
                arrive(shared_address(&empty[(at - 1) % STAGES]));
            const Place first = place_of(tile / col_tiles * CONSUMERS + group - 1, h, w);
            const int row = warp * 16;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int col = tile % col_tiles * COLS + 128 * half;
                float *v = sum[half];
#pragma unroll
                for (int i = 0; i < 16; i++) {
                    const int j = col + lane % 4 * 2 + i * 8;
                    const float left = j < n ? bias[j] : 0.0f, right = j + 1 < n ? bias[j + 1] : 0.0f;
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        v[4 * i + e] = fmaxf(v[4 * i + e] + (e % 2 ? right : left), 0.0f);
                }
                if (n % 8 != 0) {
#pragma unroll
                    for (int part = 0; part < 2; part++) {
                        __nv_bfloat16 *to = pixel_of(out, first, row + lane / 4 + 8 * part, n, h, w, images);
                        if (to == nullptr)
                            continue;
#pragma unroll
                        for (int i = 0; i < 16; i++)
                            put(to, col + lane % 4 * 2 + i * 8, n, v[4 * i + 2 * part], v[4 * i + 2 * part + 1]);
                    }
                    __syncwarp();
                    continue;
                }
#pragma unroll
                for (int i = 0; i < 16; i++)
#pragma unroll
                    for (int part = 0; part < 2; part++)
                        *reinterpret_cast<__nv_bfloat162 *>(slot(own, lane / 4 + 8 * part, i) + lane % 4 * 4) =
                            __floats2bfloat162_rn(v[4 * i + 2 * part], v[4 * i + 2 * part + 1]);
                __syncwarp();
                // Two pixels an instruction instead of sixteen bytes of each of eight.
#pragma unroll
                for (int i = 0; i < 16; i += 2) {
                    const int r = i + lane / 16, j = col + lane % 16 * 8;
                    const uint4 eight = *reinterpret_cast<const uint4 *>(slot(own, r, lane % 16));
                    __nv_bfloat16 *to = pixel_of(out, first, row + r, n, h, w, images);
                    if (to != nullptr && j < n)
                        *reinterpret_cast<uint4 *>(to + j) = eight;
                }
                __syncwarp();
            }
        }
    }
}
