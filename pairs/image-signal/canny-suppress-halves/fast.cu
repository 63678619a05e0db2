#include <cuda_fp16.h>

// A warp marches down 240 columns, eight to a lane, two to a register; its first and last lane only help, and neighbours'
// pixels and strengths come from the lanes beside. All values are whole numbers up to 2040: the bits of such a number are,
// as a half, that many times the least half above zero, so that halves add and compare them exactly.
#define WARPS 2
#define ROWS 71
#define PIXELS 8
#define PAIRS (PIXELS / 2)
#define STRIP (30 * PIXELS)
#define ALL 0xffffffffu

__device__ __forceinline__ unsigned bits(half2 v) { return *reinterpret_cast<const unsigned *>(&v); }

__device__ __forceinline__ half2 pair(unsigned v) { return *reinterpret_cast<const half2 *>(&v); }

// Pair k has columns 2k and 2k + 1; pair k of those between has 2k - 1 and 2k.
struct Between {
    unsigned p[PAIRS + 1];
};

__device__ __forceinline__ Between between(const unsigned (&own)[PAIRS])
{
    const unsigned left = __shfl_up_sync(ALL, own[PAIRS - 1], 1), right = __shfl_down_sync(ALL, own[0], 1);
    Between result;
    result.p[0] = __byte_perm(left, own[0], 0x5432);
#pragma unroll
    for (int k = 1; k < PAIRS; k++)
        result.p[k] = __byte_perm(own[k - 1], own[k], 0x5432);
    result.p[PAIRS] = __byte_perm(own[PAIRS - 1], right, 0x5432);
    return result;
}

// Of a row: differences and weighted sums across.
struct Line {
    half2 difference[PAIRS], sum[PAIRS];
};

struct Strengths {
    unsigned own[PAIRS];
    Between beside;
};

struct Gradient {
    half2 x[PAIRS], y[PAIRS];
};

// How a lane's bytes stand for its columns: outside the image its nearest pixel stands for all, and no edge is strong.
// Only warps near the image's rim (RIM) ask for that.
struct Rim {
    unsigned low, high, inside;
};

// WIDE: rows are a multiple of eight pixels.
template <bool WIDE>
__device__ __forceinline__ uint2 load_eight(const unsigned char *__restrict__ image, int x, int y, int height, int width)
{
    const unsigned char *row = image + static_cast<size_t>(min(max(y, 0), height - 1)) * width;
    if (WIDE)
        return __ldg(reinterpret_cast<const uint2 *>(row + min(max(x, 0), width - PIXELS)));
    unsigned words[2] = {};
#pragma unroll
    for (int s = 0; s < PIXELS; s++)
        words[s / 4] |= static_cast<unsigned>(row[min(max(x + s, 0), width - 1)]) << 8 * (s % 4);
    return make_uint2(words[0], words[1]);
}

template <bool RIM> __device__ __forceinline__ Line line_of(uint2 eight, const Rim &rim)
{
    if (RIM)
        eight = make_uint2(__byte_perm(eight.x, eight.y, rim.low), __byte_perm(eight.x, eight.y, rim.high));
    const unsigned own[PAIRS] = {__byte_perm(eight.x, 0, 0x4140), __byte_perm(eight.x, 0, 0x4342),
                                 __byte_perm(eight.y, 0, 0x4140), __byte_perm(eight.y, 0, 0x4342)};
    const Between beside = between(own);
    Line line;
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        const half2 west = pair(beside.p[k]), east = pair(beside.p[k + 1]);
        line.difference[k] = __hsub2(east, west);
        line.sum[k] = __hfma2(pair(own[k]), __float2half2_rn(2.0f), __hadd2(west, east));
    }
    return line;
}

template <bool RIM>
__device__ __forceinline__ Strengths slopes(Gradient &g, const Line &above, const Line &here, const Line &below,
                                            const Rim &rim, bool row_inside, int left)
{
    Strengths result;
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        g.x[k] = __hfma2(here.difference[k], __float2half2_rn(2.0f), __hadd2(above.difference[k], below.difference[k]));
        g.y[k] = __hsub2(below.sum[k], above.sum[k]);
        result.own[k] = bits(__hadd2(__habs2(g.x[k]), __habs2(g.y[k])));
        if (RIM) {
            // `left` columns of the lane's eight are in the image.
            const unsigned both = (2 * k < left ? 0xffffu : 0u) | (2 * k + 1 < left ? 0xffff0000u : 0u);
            result.own[k] &= row_inside ? both & rim.inside : 0u;
        }
    }
    result.beside = between(result.own);
    return result;
}

__device__ __forceinline__ unsigned choose(unsigned mask, unsigned yes, unsigned no)
{
    return (yes & mask) | (no & ~mask);
}

// All ones for each half whose sign bit is set.
__device__ __forceinline__ unsigned signs_of(unsigned v)
{
    unsigned result;
    asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(result) : "r"(v));
    return result;
}

// Two pixels' marks. A sum that is rounded once keeps its sign, so the comparisons of multiples are exact.
__device__ __forceinline__ unsigned marks_of(int k, const Strengths &above, const Strengths &here,
                                             const Strengths &below, const Gradient &g, half2 low, half2 high)
{
    const half2 zero = __float2half2_rn(0.0f), ax = __habs2(g.x[k]), ay = __habs2(g.y[k]), own = pair(here.own[k]);
    const half2 by32 = __float2half2_rn(32.0f);
    const unsigned down = __hgt2_mask(__hfma2(ax, __float2half2_rn(-77.0f), __hmul2(ay, by32)), zero);
    const unsigned slanted = __hgt2_mask(__hfma2(ay, __float2half2_rn(77.0f), __hneg2(__hmul2(ax, by32))), zero);
    const unsigned signs = signs_of(bits(g.x[k]) ^ bits(g.y[k]));
    const unsigned upper = choose(signs, above.beside.p[k + 1], above.beside.p[k]);
    const unsigned lower = choose(signs, below.beside.p[k], below.beside.p[k + 1]);
    const unsigned before = choose(down, above.own[k], choose(slanted, upper, here.beside.p[k]));
    const unsigned after = choose(down, below.own[k], choose(slanted, lower, here.beside.p[k + 1]));
    const unsigned top = __hgt2_mask(own, pair(before)) & __hge2_mask(own, pair(after)) & 0x00010001u;
    return (top & __hge2_mask(own, low)) + (top & __hge2_mask(own, high));
}

template <bool WIDE, bool RIM>
__device__ __forceinline__ void march(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges, int height,
                                      int width, int x, int first, half2 low, half2 high)
{
    const int lane = threadIdx.x % 32, last = min(first + ROWS, height), left = width - x;
    const Rim rim = {x >= 0 || !WIDE ? left > 0 || !WIDE ? 0x3210u : 0x7777u : 0u,
                     x >= 0 || !WIDE ? left > 0 || !WIDE ? 0x7654u : 0x7777u : 0u, x >= 0 && left > 0 ? ALL : 0u};
    const bool writes = lane > 0 && lane < 31 && left > 0;
    Line lines[3];
    Strengths strengths[3] = {};
    Gradient gradients[3] = {};
    uint2 ahead[3];
    lines[0] = line_of<RIM>(load_eight<WIDE>(image, x, first - 2, height, width), rim);
    lines[1] = line_of<RIM>(load_eight<WIDE>(image, x, first - 1, height, width), rim);
#pragma unroll
    for (int k = 0; k < 3; k++)
        ahead[k] = load_eight<WIDE>(image, x, first + k, height, width);
    const unsigned char *coming = image + static_cast<size_t>(first + 3) * width + x;
    unsigned char *to = edges + static_cast<size_t>(first) * width + x;
#pragma unroll 1
    for (int base = first - 1; base <= last; base += 3) {
#pragma unroll
        for (int k = 0; k < 3; k++) {
            const int y = base + k;
            if (y > last)
                break;
            lines[(k + 2) % 3] = line_of<RIM>(ahead[k], rim);
            if (RIM) {
                ahead[k] = load_eight<WIDE>(image, x, y + 4, height, width);
            } else if (y + 3 <= last) {
                ahead[k] = __ldg(reinterpret_cast<const uint2 *>(coming));
                coming += width;
            }
            strengths[(k + 2) % 3] = slopes<RIM>(gradients[(k + 2) % 3], lines[k], lines[(k + 1) % 3], lines[(k + 2) % 3],
                                                 rim, y >= 0 && y < height, left);
            if (y <= first)
                continue;
            unsigned marks[PAIRS];
#pragma unroll
            for (int i = 0; i < PAIRS; i++)
                marks[i] = marks_of(i, strengths[k], strengths[(k + 1) % 3], strengths[(k + 2) % 3],
                                    gradients[(k + 1) % 3], low, high);
            const uint2 eight = make_uint2(__byte_perm(marks[0], marks[1], 0x6420), __byte_perm(marks[2], marks[3], 0x6420));
            if (writes) {
                if (WIDE) {
                    __stcs(reinterpret_cast<uint2 *>(to), eight);
                } else {
#pragma unroll
                    for (int s = 0; s < PIXELS; s++)
                        if (s < left)
                            to[s] = (s < 4 ? eight.x : eight.y) >> 8 * (s % 4);
                }
            }
            to += width;
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    edges(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges, int height, int width, int low,
          int high)
{
    const int lane = threadIdx.x % 32, strip = (blockIdx.x * WARPS + threadIdx.x / 32) * STRIP;
    const int first = blockIdx.y * ROWS, x = strip + (lane - 1) * PIXELS;
    if (strip >= width)
        return;
    const unsigned least = min(max(low, 0), 2048) * 0x00010001u, strong = min(max(high, 0), 2048) * 0x00010001u;
    const bool inside = strip > 0 && strip + STRIP + PIXELS <= width && first > 1 && first + ROWS + 3 <= height;
    if (width % PIXELS != 0)
        march<false, true>(image, edges, height, width, x, first, pair(least), pair(strong));
    else if (inside)
        march<true, false>(image, edges, height, width, x, first, pair(least), pair(strong));
    else
        march<true, true>(image, edges, height, width, x, first, pair(least), pair(strong));
}
