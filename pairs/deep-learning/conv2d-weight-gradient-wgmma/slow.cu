#include <cuda_bf16.h>

#define THREADS 256
#define ROWS 128
#define COLS 128
#define DEPTH 64
#define ROW_BYTES 256
#define STAGES 3
#define LEFT_BYTES (DEPTH * ROW_BYTES)
#define STAGE_BYTES (2 * LEFT_BYTES)

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Where 16 bytes of a pixel's 128 elements lie: chunks exchanged within eight pixels.
__device__ __forceinline__ int place(int pixel, int chunk) { return pixel * ROW_BYTES + (chunk ^ (pixel & 7)) * 16; }

__device__ __forceinline__ void copy_chunk(unsigned char *to, const bf16 *from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(inside ? 16 : 0) : "memory");
}

// Four matrices of eight by eight, transposed: both factors lie with the summed index outermost.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const unsigned char *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(shared_address(from)) : "memory");
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

struct Shape {
    int h, w, c, k;
};

// A thread copies one chunk of sixteen pixels' gradients and inputs; its tap and channels never change.
struct Columns {
    int out, dy, dx, channel;
    bool left, right;
};

__device__ __forceinline__ void copy_stage(unsigned char *stage, const bf16 *__restrict__ in,
                                           const bf16 *__restrict__ gradient, int first, int end, const Columns &own,
                                           const Shape &s)
{
    const int chunk = threadIdx.x % 16;
#pragma unroll
    for (int part = 0; part < DEPTH / 16; part++) {
        const int i = threadIdx.x / 16 + 16 * part, pixel = first + i, line = pixel / s.w;
        const int x = pixel - line * s.w + own.dx, y = line % s.h + own.dy;
        const bool inside = pixel < end, seen = inside && own.right && x >= 0 && x < s.w && y >= 0 && y < s.h;
        const bf16 *from = gradient + static_cast<size_t>(pixel) * s.k + own.out;
        copy_chunk(stage + place(i, chunk), inside && own.left ? from : gradient, inside && own.left);
        const bf16 *tap = in + (static_cast<size_t>(pixel) + own.dy * s.w + own.dx) * s.c + own.channel;
        copy_chunk(stage + LEFT_BYTES + place(i, chunk), seen ? tap : in, seen);
    }
}

__device__ __forceinline__ void multiply_stage(float (&sum)[4][4][4], const unsigned char *stage, int y, int x)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 2
    for (int i = 0; i < DEPTH; i += 16) {
        unsigned p[4][4], q[2][4];
#pragma unroll
        for (int r = 0; r < 4; r++)
            load_matrices(p[r], stage + place(i + lane / 16 * 8 + lane % 8, y / 8 + 2 * r + lane / 8 % 2));
#pragma unroll
        for (int s = 0; s < 2; s++)
            load_matrices(q[s], stage + LEFT_BYTES + place(i + lane / 8 % 2 * 8 + lane % 8, x / 8 + 2 * s + lane / 16));
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int s = 0; s < 4; s++)
                multiply(sum[r][s], p[r], q[s / 2][s % 2 * 2], q[s / 2][s % 2 * 2 + 1]);
    }
}

// Few tiles of weights, many pixels: blockIdx.z splits the pixels, and a second launch adds the parts up.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    partial_gradients(const bf16 *__restrict__ in, const bf16 *__restrict__ gradient, float *__restrict__ partial,
                      int pixels, int share, int h, int w, int c, int k)
{
    extern __shared__ __align__(128) unsigned char stages[];
    const Shape s = {h, w, c, k};
    const int row = blockIdx.x * ROWS, col = blockIdx.y * COLS, n = 9 * c;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, y = warp / 4 * 64, x = warp % 4 * 32;
    const int mine = col + threadIdx.x % 16 * 8, tap = mine / c, out = row + threadIdx.x % 16 * 8;
    const Columns own = {out, tap / 3 - 1, tap % 3 - 1, mine - tap * c, out < k, mine < n};
    const int begin = blockIdx.z * share, end = min(pixels, begin + share);
    const int tiles = (end - begin + DEPTH - 1) / DEPTH;
    float sum[4][4][4] = {};
    const auto start = [&](int tile) {
        if (tile < tiles)
            copy_stage(stages + tile % STAGES * STAGE_BYTES, in, gradient, begin + tile * DEPTH, end, own, s);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int tile = 0; tile < STAGES - 1; tile++)
        start(tile);
    for (int tile = 0; tile < tiles; tile++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        start(tile + STAGES - 1);
        multiply_stage(sum, stages + tile % STAGES * STAGE_BYTES, y, x);
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    float *to = partial + static_cast<size_t>(blockIdx.z) * k * n;
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int f = 0; f < 4; f++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int i = row + y + 16 * r + 8 * half + lane / 4, j = col + x + 8 * f + lane % 4 * 2;
                if (i < k && j < n)
                    *reinterpret_cast<float2 *>(to + static_cast<size_t>(i) * n + j) =
                        make_float2(sum[r][f][2 * half], sum[r][f][2 * half + 1]);
            }
}

extern "C" __global__ void add_parts(const float4 *__restrict__ partial, uint2 *__restrict__ dweights, int parts,
                                     int quads)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= quads)
        return;
    float4 sum = partial[i];
#pragma unroll 8
    for (int part = 1; part < parts; part++) {
        const float4 own = __ldcs(partial + static_cast<size_t>(part) * quads + i);
        sum = make_float4(sum.x + own.x, sum.y + own.y, sum.z + own.z, sum.w + own.w);
    }
    uint2 result;
    reinterpret_cast<__nv_bfloat162 *>(&result)[0] = __floats2bfloat162_rn(sum.x, sum.y);
    reinterpret_cast<__nv_bfloat162 *>(&result)[1] = __floats2bfloat162_rn(sum.z, sum.w);
    dweights[i] = result;
}
