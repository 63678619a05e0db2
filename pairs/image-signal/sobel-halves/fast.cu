#include <cuda_fp16.h>

// A thread marches down eight columns, with six rows on their way; pixels beside the eight come from the neighbouring
// lanes. Pixels are held two to a register in 16-bit halves: word k of a row holds pixels (0, 2), (1, 3), (4, 6), (5, 7).
// The bits of a whole number below 2048 are, as a half, that many times the least half above zero: sums are exact.
#define ROWS 48
#define AHEAD 6
#define THREADS 128
#define ALL 0xffffffffu

typedef half2 Pairs;

// Eight pixels; `beside` is the one left of the warp's first or right of its last.
struct Raw {
    uint2 eight;
    unsigned beside;
};

struct Row {
    unsigned p[4], left, right;
};

// Which byte a lane lends to the one left of it: lanes behind the image lend the last.
struct Edges {
    bool first, last;
    unsigned lent;
};

// Half of the lanes load the pixel left of the warp, half the one right of it: nothing to branch on.
__device__ __forceinline__ Raw load_raw(const unsigned char *own, const unsigned char *beside)
{
    return {__ldg(reinterpret_cast<const uint2 *>(own)), __ldg(beside)};
}

__device__ __forceinline__ Row row_of(const Raw &raw, const Edges &edges)
{
    Row r;
    r.p[0] = raw.eight.x & 0x00ff00ffu;
    r.p[1] = (raw.eight.x >> 8) & 0x00ff00ffu;
    r.p[2] = raw.eight.y & 0x00ff00ffu;
    r.p[3] = (raw.eight.y >> 8) & 0x00ff00ffu;
    const unsigned left = __shfl_up_sync(ALL, raw.eight.y >> 24, 1);
    const unsigned right = __shfl_down_sync(ALL, __byte_perm(raw.eight.x, raw.eight.y, edges.lent) & 255u, 1);
    r.left = edges.first ? raw.beside : left;
    r.right = edges.last ? raw.beside : right;
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

__device__ void march8(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges_to, int height,
                       int width, int column, int first)
{
    const Pairs two = __float2half2_rn(2.0f);
    const int last = min(first + ROWS, height), lane = threadIdx.x % 32, x = min(column, width - 8);
    const int start = column - 8 * lane;
    if (start >= width)
        return;
    const Edges edges = {lane == 0, lane == 31, column < width ? 0u : 7u};
    const unsigned char *own = image + (size_t)max(first - 1, 0) * width + x;
    const unsigned char *beside = own + (lane < 16 ? max(start - 1, 0) : min(start + 256, width - 1)) - x;
    Line lines[3];
    Raw ahead[AHEAD + 2];
#pragma unroll
    for (int k = 0; k < AHEAD + 2; k++) {
        ahead[(k + AHEAD) % (AHEAD + 2)] = load_raw(own, beside);
        const int step = first + k > 0 && first + k < height ? width : 0;
        own += step;
        beside += step;
    }
    lines[0] = line_of(row_of(ahead[AHEAD], edges));
    lines[1] = line_of(row_of(ahead[AHEAD + 1], edges));
    unsigned char *to = edges_to + (size_t)first * width + x;
#pragma unroll 1
    for (int base = first; base < last; base += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int y = base + k;
            if (y >= last)
                break;
            const Line &up = lines[k % 3], &mid = lines[(k + 1) % 3];
            Line &down = lines[(k + 2) % 3];
            down = line_of(row_of(ahead[k], edges));
            if (y + 1 + AHEAD <= last) {
                ahead[k] = load_raw(own, beside);
                const int step = y + 2 + AHEAD < height ? width : 0;
                own += step;
                beside += step;
            }
            unsigned strength[4];
#pragma unroll
            for (int s = 0; s < 4; s++) {
                const Pairs gx = __hfma2(mid.across[s], two, __hadd2(up.across[s], down.across[s]));
                const Pairs gy = __hsub2(down.sum[s], up.sum[s]);
                strength[s] = bits(__hmin2(__hadd2(__habs2(gx), __habs2(gy)), pairs(0x00ff00ffu)));
            }
            const uint2 packed = make_uint2(strength[0] | strength[1] << 8, strength[2] | strength[3] << 8);
            if (column < width)
                __stcs(reinterpret_cast<uint2 *>(to), packed);
            to += width;
        }
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
        march8(image, edges, height, width, column + 8 * threadIdx.x, first);
    } else {
        for (int x = column + threadIdx.x; x < min(column + 8 * THREADS, width); x += THREADS)
            march1(image, edges, height, width, x, first);
    }
}
