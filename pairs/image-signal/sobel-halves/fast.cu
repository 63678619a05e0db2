#include <cuda_fp16.h>

// A thread marches down eight columns. Pixels are held two to a register in 16-bit halves: word k of a row
// holds pixels (0, 2), (1, 3), (4, 6), (5, 7), with the pixels left and right of the eight beside them. The bits of a
// whole number below 2048 are, as a half, that many times the least half above zero: sums and differences are exact.
#define ROWS 32
#define THREADS 128

typedef half2 Pairs;

struct Row {
    unsigned p[4], left, right;
};

__device__ __forceinline__ Row load_row(const unsigned char *__restrict__ image, int x, int y, int height, int width)
{
    const unsigned char *row = image + (size_t)min(max(y, 0), height - 1) * width;
    const uint2 eight = __ldg(reinterpret_cast<const uint2 *>(row + x));
    Row r;
    r.p[0] = eight.x & 0x00ff00ffu;
    r.p[1] = (eight.x >> 8) & 0x00ff00ffu;
    r.p[2] = eight.y & 0x00ff00ffu;
    r.p[3] = (eight.y >> 8) & 0x00ff00ffu;
    r.left = x > 0 ? __ldg(row + x - 1) : eight.x & 255u;
    r.right = x + 8 < width ? __ldg(row + x + 8) : eight.y >> 24;
    return r;
}

// Pixel pairs one to the left (`west`) and one to the right (`east`) of the four words.
__device__ __forceinline__ void shifted(const Row &r, unsigned (&west)[4], unsigned (&east)[4])
{
    west[0] = r.left | r.p[1] << 16;
    west[1] = r.p[0];
    west[2] = __funnelshift_r(r.p[1], r.p[3], 16);
    west[3] = r.p[2];
    east[0] = r.p[1];
    east[1] = __funnelshift_r(r.p[0], r.p[2], 16);
    east[2] = r.p[3];
    east[3] = r.p[2] >> 16 | r.right << 16;
}

__device__ __forceinline__ Pairs pairs(unsigned bits) { return *reinterpret_cast<const Pairs *>(&bits); }

__device__ __forceinline__ unsigned bits(Pairs v) { return *reinterpret_cast<const unsigned *>(&v); }

// Of a row: what lies to the right less what lies to the left, and the weighted sum of three.
struct Line {
    Pairs across[4], sum[4];
};

__device__ __forceinline__ Line line_of(const Row &r)
{
    const Pairs two = __float2half2_rn(2.0f);
    unsigned west[4], east[4];
    shifted(r, west, east);
    Line line;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        line.across[k] = __hsub2(pairs(east[k]), pairs(west[k]));
        line.sum[k] = __hfma2(pairs(r.p[k]), two, __hadd2(pairs(east[k]), pairs(west[k])));
    }
    return line;
}

__device__ void march8(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges, int height, int width,
                       int x, int first)
{
    const Pairs two = __float2half2_rn(2.0f);
    const int last = min(first + ROWS, height);
    Line up = line_of(load_row(image, x, first - 1, height, width));
    Line mid = line_of(load_row(image, x, first, height, width));
    Row next = load_row(image, x, first + 1, height, width);
#pragma unroll 3
    for (int y = first; y < last; y++) {
        const Line down = line_of(next);
        next = load_row(image, x, y + 2, height, width);
        unsigned strength[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const Pairs gx = __hfma2(mid.across[k], two, __hadd2(up.across[k], down.across[k]));
            const Pairs gy = __hsub2(down.sum[k], up.sum[k]);
            strength[k] = bits(__hmin2(__hadd2(__habs2(gx), __habs2(gy)), pairs(0x00ff00ffu)));
        }
        const uint2 packed = make_uint2(strength[0] | strength[1] << 8, strength[2] | strength[3] << 8);
        *reinterpret_cast<uint2 *>(edges + (size_t)y * width + x) = packed;
        up = mid;
        mid = down;
    }
}

__device__ int pixel(const unsigned char *__restrict__ image, int x, int y, int height, int width)
{
    return image[(size_t)min(max(y, 0), height - 1) * width + min(max(x, 0), width - 1)];
}

__device__ void march1(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges, int height, int width,
                       int x, int first)
{
    for (int y = first; y < min(first + ROWS, height); y++) {
        int gx = 0, gy = 0;
        for (int d = -1; d <= 1; d++) {
            const int weight = 2 - abs(d);
            gx += weight * (pixel(image, x + 1, y + d, height, width) - pixel(image, x - 1, y + d, height, width));
            gy += weight * (pixel(image, x + d, y + 1, height, width) - pixel(image, x + d, y - 1, height, width));
        }
        edges[(size_t)y * width + x] = min(abs(gx) + abs(gy), 255);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sobel(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges, int height, int width)
{
    const int column = blockIdx.x * 8 * THREADS;
    const int first = blockIdx.y * ROWS;
    if (width % 8 == 0) {
        const int x = column + 8 * threadIdx.x;
        if (x < width)
            march8(image, edges, height, width, x, first);
    } else {
        for (int x = column + threadIdx.x; x < min(column + 8 * THREADS, width); x += THREADS)
            march1(image, edges, height, width, x, first);
    }
}
