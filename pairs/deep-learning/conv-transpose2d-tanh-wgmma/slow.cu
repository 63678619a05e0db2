#include <cuda_bf16.h>

#define THREADS 256
#define ROWS 128
#define COLS 128
#define DEPTH 64
#define ROW_BYTES (DEPTH * 2)
#define STAGES 3
#define LEFT_BYTES (ROWS * ROW_BYTES)
#define STAGE_BYTES (LEFT_BYTES + COLS * ROW_BYTES)
#define DOWN 4
#define ACROSS 4
#define TAPS 4

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Where 16 bytes of a row lie: rows of 128 bytes, chunks exchanged within eight rows.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * ROW_BYTES + ((chunk ^ row) & 7) * 16;
}

__device__ __forceinline__ void copy_chunk(unsigned char *to, const bf16 *__restrict__ from, int row, int rows,
                                           int depth, int k)
{
    const bool inside = row < rows && depth < k;
    const bf16 *source = inside ? from + static_cast<size_t>(row) * k + depth : from;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(source),
                 "r"(inside ? 16 : 0) : "memory");
}


// Four matrices of eight rows by 16 bytes; each lane names one row.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const unsigned char *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from)) : "memory");
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

struct Shape {
    int h, w, c, py, px;
};

// Of a row of the product: the first pixel of its image, and the nearer one of the two rows and columns that it needs.
struct Window {
    int base, y, x;
};

// Of an output's four by four taps, those of one parity meet a pixel: two by two, a pixel apart.
__device__ __forceinline__ int pixel_of(const Window &window, int tap, const Shape &s)
{
    const int y = window.y + s.py - tap / 2, x = window.x + s.px - tap % 2;
    return y >= 0 && y < s.h && x >= 0 && x < s.w ? window.base + y * s.w + x : -1;
}

__device__ __forceinline__ Window window_of(int row, int rows, const Shape &s)
{
    if (row >= rows)
        return {0, -0x10000, 0};
    const int image = row / (s.h * s.w), at = row - image * s.h * s.w;
    return {image * s.h * s.w, at / s.w, at % s.w};
}

// The pixels of each row's window as the left side of a product, a tap after the other, eight channels at a time.
__device__ __forceinline__ void copy_windows(unsigned char *to, const bf16 *__restrict__ in, const Window (&windows)[4],
                                             int depth, const Shape &s)
{
    const int chunk = threadIdx.x % (DEPTH / 8), at = depth + chunk * 8, tap = at / s.c, channel = at - tap * s.c;
#pragma unroll
    for (int part = 0; part < 4; part++) {
        const int i = threadIdx.x / (DEPTH / 8) + part * (THREADS / (DEPTH / 8));
        int pixel = -1;
        if (tap < TAPS)
            pixel = pixel_of(windows[part], tap, s);
        const bf16 *from = pixel >= 0 ? in + static_cast<size_t>(pixel) * s.c + channel : in;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to + place(i, chunk))),
                     "l"(from), "r"(pixel >= 0 ? 16 : 0) : "memory");
    }
}

// The weights of the taps of one parity, each tap a matrix of k by c.
__device__ __forceinline__ void copy_weights(unsigned char *to, const bf16 *__restrict__ from, int row, int rows,
                                             int depth, const Shape &s)
{
    const int chunk = threadIdx.x % (DEPTH / 8), at = depth + chunk * 8, tap = at / s.c, channel = at - tap * s.c;
    const int ky = 1 - s.py + tap / 2 * 2, kx = 1 - s.px + tap % 2 * 2;
    const bf16 *matrix = tap < TAPS ? from + static_cast<size_t>(ky * 4 + kx) * rows * s.c : from;
#pragma unroll
    for (int part = 0; part < 4; part++) {
        const int i = threadIdx.x / (DEPTH / 8) + part * (THREADS / (DEPTH / 8));
        copy_chunk(to + place(i, chunk), matrix, row + i, tap < TAPS ? rows : 0, channel, s.c);
    }
}

__device__ __forceinline__ void multiply_stage(float (&sum)[DOWN][ACROSS][4], const unsigned char *left,
                                               const unsigned char *right, int y, int x)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 2
    for (int i = 0; i < DEPTH / 8; i += 2) {
        unsigned p[DOWN][4], q[ACROSS / 2][4];
#pragma unroll
        for (int s = 0; s < ACROSS / 2; s++)
            load_matrices(q[s], right + place(x + 16 * s + lane / 16 * 8 + lane % 8, i + lane / 8 % 2));
#pragma unroll
        for (int r = 0; r < DOWN; r++)
            load_matrices(p[r], left + place(y + 16 * r + lane % 16, i + lane / 16));
#pragma unroll
        for (int r = 0; r < DOWN; r++)
#pragma unroll
            for (int s = 0; s < ACROSS; s++)
                multiply(sum[r][s], p[r], q[s / 2][s % 2 * 2], q[s / 2][s % 2 * 2 + 1]);
    }
}

__device__ __forceinline__ void product(float (&sum)[DOWN][ACROSS][4], unsigned char *stages,
                                        const bf16 *__restrict__ in, const bf16 *__restrict__ weights, int row, int col,
                                        int rows, int n, const Shape &s, int y, int across)
{
    const int k = TAPS * s.c, tiles = (k + DEPTH - 1) / DEPTH;
    Window windows[4];
#pragma unroll
    for (int part = 0; part < 4; part++)
        windows[part] = window_of(row + threadIdx.x / (DEPTH / 8) + part * (THREADS / (DEPTH / 8)), rows, s);
    const auto start = [&](int tile) {
        if (tile < tiles) {
            unsigned char *stage = stages + tile % STAGES * STAGE_BYTES;
            copy_windows(stage, in, windows, tile * DEPTH, s);
            copy_weights(stage + LEFT_BYTES, weights, col, n, tile * DEPTH, s);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int tile = 0; tile < STAGES - 1; tile++)
        start(tile);
    for (int tile = 0; tile < tiles; tile++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        start(tile + STAGES - 1);
        const unsigned char *stage = stages + tile % STAGES * STAGE_BYTES;
        multiply_stage(sum, stage, stage + LEFT_BYTES, y, across);
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

__device__ __forceinline__ void put(bf16 *__restrict__ to, int row, int col, int m, int n, float left, float right)
{
    if (row >= m || col >= n)
        return;
    to += static_cast<size_t>(row) * n + col;
    if (n % 2 == 0) {
        *reinterpret_cast<__nv_bfloat162 *>(to) = __floats2bfloat162_rn(left, right);
        return;
    }
    to[0] = __float2bfloat16(left);
    if (col + 1 < n)
        to[1] = __float2bfloat16(right);
}

// One parity of rows and columns of the result a blockIdx.z.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv_transpose(const bf16 *__restrict__ in, const bf16 *__restrict__ weights, const float *__restrict__ bias,
                   bf16 *__restrict__ out, int rows, int n, int h, int w, int c)
{
    extern __shared__ __align__(128) unsigned char stages[];
    const Shape s = {h, w, c, static_cast<int>(blockIdx.z) / 2, static_cast<int>(blockIdx.z) % 2};
    const int row = blockIdx.x * ROWS, col = blockIdx.y * COLS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, y = warp / 4 * 64, across = warp % 4 * 32;
    float sum[DOWN][ACROSS][4] = {};
    product(sum, stages, in, weights, row, col, rows, n, s, y, across);
#pragma unroll
    for (int r = 0; r < DOWN; r++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row + y + 16 * r + 8 * half + lane / 4;
            if (i >= rows)
                continue;
            const int line = i / w, to = (2 * line + s.py) * 2 * w + 2 * (i - line * w) + s.px;
#pragma unroll
            for (int f = 0; f < ACROSS; f++) {
                const int j = col + across + 8 * f + lane % 4 * 2;
                const float left = j < n ? bias[j] : 0.0f, right = j + 1 < n ? bias[j + 1] : 0.0f;
                put(out, to, j, 4 * rows, n, tanhf(sum[r][f][2 * half] + left), tanhf(sum[r][f][2 * half + 1] + right));
            }
        }
}
