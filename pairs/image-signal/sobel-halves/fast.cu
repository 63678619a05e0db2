#include <cuda_fp16.h>

// A thread marches along sixteen columns, with six rows on their way; pixels beside them come from the neighbouring
// lanes. Pixels are held two to a register in 16-bit halves: words 2 k and 2 k + 1 of a row hold pixels (0, 2) and (1,
// 3) of those from 4 k on. The bits of a whole number below 2048 are, as a half, that many times the least half above
// zero: sums are exact. Every second band is marched from its foot up, as if the image stood on its head, which changes
// no edge: two bands are then at the rows that both need at the same time, and these come from memory once.
#define ROWS 94
#define AHEAD 6
#define THREADS 128
#define WORDS 8
#define ALL 0xffffffffu

typedef half2 Pairs;

// Sixteen pixels; `beside` is the one left of the warp's first or right of its last.
struct Raw {
    uint4 own;
    unsigned beside;
};

struct Row {
    unsigned p[WORDS], left, right;
};

// Lanes behind the image lend their last pixel to the one left of them, not their first.
struct Edges {
    bool first, last, behind;
};

// Half of the lanes load the pixel left of the warp, half the one right of it: nothing to branch on.
__device__ __forceinline__ Raw load_raw(const unsigned char *own, const unsigned char *beside)
{
    return {__ldg(reinterpret_cast<const uint4 *>(own)), __ldg(beside)};
}

__device__ __forceinline__ Row row_of(const Raw &raw, const Edges &edges)
{
    Row r;
    const unsigned four[WORDS / 2] = {raw.own.x, raw.own.y, raw.own.z, raw.own.w};
#pragma unroll
    for (int k = 0; k < WORDS; k++)
        r.p[k] = (k % 2 ? four[k / 2] >> 8 : four[k / 2]) & 0x00ff00ffu;
    const unsigned left = __shfl_up_sync(ALL, raw.own.w >> 24, 1);
    const unsigned right = __shfl_down_sync(ALL, edges.behind ? raw.own.w >> 24 : raw.own.x & 255u, 1);
    r.left = edges.first ? raw.beside : left;
    r.right = edges.last ? raw.beside : right;
    return r;
}

// Pixel pairs one to the left (`west`) and one to the right (`east`) of the words.
__device__ __forceinline__ void shifted(const Row &r, unsigned (&west)[WORDS], unsigned (&east)[WORDS])
{
    west[0] = r.left | r.p[1] << 16;
    east[WORDS - 1] = r.p[WORDS - 2] >> 16 | r.right << 16;
#pragma unroll
    for (int k = 0; k < WORDS; k += 2) {
        west[k + 1] = r.p[k];
        east[k] = r.p[k + 1];
    }
#pragma unroll
    for (int k = 0; k < WORDS - 2; k += 2) {
        west[k + 2] = __funnelshift_r(r.p[k + 1], r.p[k + 3], 16);
        east[k + 1] = __funnelshift_r(r.p[k], r.p[k + 2], 16);
    }
}

__device__ __forceinline__ Pairs pairs(unsigned bits) { return *reinterpret_cast<const Pairs *>(&bits); }

__device__ __forceinline__ unsigned bits(Pairs v) { return *reinterpret_cast<const unsigned *>(&v); }

// Of a row: what lies to the right less what lies to the left, and the weighted sum of three.
struct Line {
    Pairs across[WORDS], sum[WORDS];
};

__device__ __forceinline__ Line line_of(const Row &r)
{
    const Pairs two = __float2half2_rn(2.0f);
    unsigned west[WORDS], east[WORDS];
    shifted(r, west, east);
    Line line;
#pragma unroll
    for (int k = 0; k < WORDS; k++) {
        line.across[k] = __hsub2(pairs(east[k]), pairs(west[k]));
        line.sum[k] = __hfma2(pairs(r.p[k]), two, __hadd2(pairs(east[k]), pairs(west[k])));
    }
    return line;
}

__device__ void march16(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges_to, int height,
                       int width, int column, int first, int last, int stride)
{
    const Pairs two = __float2half2_rn(2.0f);
    const int lane = threadIdx.x % 32, x = min(column, width - 16);
    const int start = column - 16 * lane;
    if (start >= width)
        return;
    const Edges edges = {lane == 0, lane == 31, column >= width};
    const unsigned char *own = image + static_cast<ptrdiff_t>(max(first - 1, 0)) * stride + x;
    const unsigned char *beside = own + (lane < 16 ? max(start - 1, 0) : min(start + 512, width - 1)) - x;
    Line lines[3];
    Raw ahead[AHEAD + 2];
#pragma unroll
    for (int k = 0; k < AHEAD + 2; k++) {
        ahead[(k + AHEAD) % (AHEAD + 2)] = load_raw(own, beside);
        const int step = first + k > 0 && first + k < height ? stride : 0;
        own += step;
        beside += step;
    }
    lines[0] = line_of(row_of(ahead[AHEAD], edges));
    lines[1] = line_of(row_of(ahead[AHEAD + 1], edges));
    unsigned char *to = edges_to + static_cast<ptrdiff_t>(first) * stride + x;
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
                const int step = y + 2 + AHEAD < height ? stride : 0;
                own += step;
                beside += step;
            }
            unsigned strength[WORDS];
#pragma unroll
            for (int s = 0; s < WORDS; s++) {
                const Pairs gx = __hfma2(mid.across[s], two, __hadd2(up.across[s], down.across[s]));
                const Pairs gy = __hsub2(down.sum[s], up.sum[s]);
                strength[s] = bits(__hmin2(__hadd2(__habs2(gx), __habs2(gy)), pairs(0x00ff00ffu)));
            }
            const uint4 packed = make_uint4(strength[0] | strength[1] << 8, strength[2] | strength[3] << 8,
                                            strength[4] | strength[5] << 8, strength[6] | strength[7] << 8);
            if (column < width)
                __stcs(reinterpret_cast<uint4 *>(to), packed);
            to += stride;
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

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    sobel(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges, int height, int width)
{
    const int column = blockIdx.x * 16 * THREADS;
    const int first = blockIdx.y * ROWS;
    if (width % 16 == 0) {
        const bool up = blockIdx.y % 2;
        const int last = min(first + ROWS, height);
        const size_t head = up ? static_cast<size_t>(height - 1) * width : 0;
        march16(image + head, edges + head, height, width, column + 16 * threadIdx.x,
               up ? height - last : first, up ? height - first : last, up ? -width : width);
    } else {
        for (int x = column + threadIdx.x; x < min(column + 16 * THREADS, width); x += THREADS)
            march1(image, edges, height, width, x, first);
    }
}
