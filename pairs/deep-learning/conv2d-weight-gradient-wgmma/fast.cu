#include <cuda.h>
#include <cuda_bf16.h>

#define CONSUMERS 2
#define CONSUMER_WARPS (4 * CONSUMERS)
#define THREADS (128 * (1 + CONSUMERS))
#define ROWS 128
#define COLS 128
#define TAPS 9
#define WIDE 4
#define IMAGES 2
#define HIGH 14
#define PIXELS (WIDE * IMAGES * HIGH)
#define BOX_BYTES (PIXELS * 128)
#define STAGE_BYTES (4 * BOX_BYTES)
#define STAGES 4

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

__device__ __forceinline__ void load_box(unsigned to, const CUtensorMap *map, int channel, int x, int image, int y,
                                         unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to), "l"(map), "r"(channel), "r"(x), "r"(image), "r"(y),
                 "r"(barrier) : "memory");
}

// Both factors lie by rows of pixels: eight pixels to a swizzled block, the next 64 channels a box further on.
__device__ __forceinline__ unsigned long long describe(unsigned tile)
{
    return 1ull << 62 | 64ull << 32 | static_cast<unsigned long long>(BOX_BYTES / 16) << 16 | (tile & 0x3ffff) >> 4;
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
        "%64, %65, adds, 1, 1, 1, 1;\n"
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

// The first pixel of a box of WIDE x HIGH pixels of two images, and the first of these.
struct Place {
    int x, y, image;
};

__device__ __forceinline__ Place place_of(int box, int h, int w)
{
    const int across = (w + WIDE - 1) / WIDE, down = (h + HIGH - 1) / HIGH;
    return {box % across * WIDE, box / across % down * HIGH, box / (across * down) * IMAGES};
}

// The gradients of 128 by 128 weights at one tap from a share of the pixels; a second launch adds the shares up. One
// tap a block keeps the shares few, which is what they cost in stores and loads. A line of a box is four pixels of each
// of two images, so that 28 pixels across leave no rest.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    partial_gradients(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap gradient,
                      float *__restrict__ partial, int boxes, int share, int h, int w, int c, int k)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    const unsigned stages = (shared_address(room) + 1023) & ~1023u;
    const int group = threadIdx.x / 128;
    const int row = blockIdx.x * ROWS, tap = blockIdx.y % TAPS, channel = blockIdx.y / TAPS * COLS;
    const int begin = min(static_cast<int>(blockIdx.z) * share, boxes), steps = min(share, boxes - begin);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&full[s]), 1);
            init_barrier(shared_address(&empty[s]), CONSUMER_WARPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();

    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            for (int step = 0; step < steps; step++) {
                const unsigned stage = stages + step % STAGES * STAGE_BYTES;
                const unsigned barrier = shared_address(&full[step % STAGES]);
                const Place first = place_of(begin + step, h, w);
                wait(shared_address(&empty[step % STAGES]), (step / STAGES + 1) % 2);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(STAGE_BYTES)
                             : "memory");
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    load_box(stage + half * BOX_BYTES, &gradient, row + 64 * half, first.x, first.image, first.y,
                             barrier);
                    load_box(stage + (2 + half) * BOX_BYTES, &in, channel + 64 * half, first.x + tap % 3 - 1,
                             first.image, first.y + tap / 3 - 1, barrier);
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        float sum[64];
#pragma unroll
        for (int i = 0; i < 64; i++)
            sum[i] = 0.0f;
        for (int step = 0; step < steps; step++) {
            const unsigned stage = stages + step % STAGES * STAGE_BYTES, left = stage + (group - 1) * BOX_BYTES;
            wait(shared_address(&full[step % STAGES]), step / STAGES % 2);
            __syncwarp();
            begin_products();
#pragma unroll
            for (int i = 0; i < PIXELS; i += 16)
                multiply(sum, describe(left + i * 128), describe(stage + 2 * BOX_BYTES + i * 128), 1);
            commit_products();
            wait_products<1>();
            if (step > 0 && lane == 0)
                arrive(shared_address(&empty[(step - 1) % STAGES]));
            __syncwarp();
        }
        wait_products<0>();
        float *to = partial + (static_cast<size_t>(blockIdx.z) * k * TAPS + tap) * c;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row + (group - 1) * 64 + warp * 16 + lane / 4 + 8 * half;
#pragma unroll
            for (int f = 0; f < COLS / 8; f++) {
                const int at = channel + 8 * f + lane % 4 * 2;
                if (i < k && at < c)
                    *reinterpret_cast<float2 *>(to + static_cast<size_t>(i) * TAPS * c + at) =
                        make_float2(sum[4 * f + 2 * half], sum[4 * f + 2 * half + 1]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(128)
    add_parts(const float4 *__restrict__ partial, uint2 *__restrict__ dweights, int parts, int quads)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= quads)
        return;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 7
    for (int part = 0; part < parts; part++) {
        const float4 own = __ldcs(partial + static_cast<size_t>(part) * quads + i);
        sum = make_float4(sum.x + own.x, sum.y + own.y, sum.z + own.z, sum.w + own.w);
    }
    uint2 result;
    reinterpret_cast<__nv_bfloat162 *>(&result)[0] = __floats2bfloat162_rn(sum.x, sum.y);
    reinterpret_cast<__nv_bfloat162 *>(&result)[1] = __floats2bfloat162_rn(sum.z, sum.w);
    dweights[i] = result;
}
