#include <cuda_fp16.h>

#define WARPS 4
#define ROWS 32

// The words left of, at and right of a thread's four pixels.
struct Words {
    unsigned left, own, right;
};

__device__ __forceinline__ unsigned load_word(const unsigned char *__restrict__ row, int at, int width)
{
    if (width % 4 == 0 && at >= 0 && at < width)
        return __ldg(reinterpret_cast<const unsigned *>(row + at));
    unsigned four = 0;
#pragma unroll
    for (int s = 0; s < 4; s++)
        four |= static_cast<unsigned>(row[min(max(at + s, 0), width - 1)]) << 8 * s;
    return four;
}

__device__ __forceinline__ Words load_row(const unsigned char *__restrict__ image, int x, int y, int height, int width)
{
    const unsigned char *row = image + static_cast<size_t>(min(max(y, 0), height - 1)) * width;
    return {load_word(row, x - 4, width), load_word(row, x, width), load_word(row, x + 4, width)};
}

__device__ __forceinline__ unsigned bits(half2 v) { return *reinterpret_cast<const unsigned *>(&v); }

__device__ __forceinline__ half2 pair(unsigned v) { return *reinterpret_cast<const half2 *>(&v); }

// Two bytes as two halves: 1024 and a byte share a word.
template <unsigned WHICH> __device__ __forceinline__ half2 widen(unsigned word)
{
    return __hadd2(pair(__byte_perm(word, 0x64646464u, WHICH)), __float2half2_rn(-1024.0f));
}

// The right half of one pair and the left half of the next.
__device__ __forceinline__ half2 between(half2 a, half2 b) { return pair(__byte_perm(bits(a), bits(b), 0x5432)); }

// Of a row, for the columns -1 to 4 in three pairs: differences and weighted sums across.
struct Line {
    half2 difference[3], sum[3];
};

__device__ __forceinline__ Line line_of(const Words &w)
{
    const half2 p[4] = {widen<0x4342>(w.left), widen<0x4140>(w.own), widen<0x4342>(w.own), widen<0x4140>(w.right)};
    Line line;
#pragma unroll
    for (int i = 0; i < 3; i++) {
        line.difference[i] = __hsub2(p[i + 1], p[i]);
        line.sum[i] = __hfma2(between(p[i], p[i + 1]), __float2half2_rn(2.0f), __hadd2(p[i], p[i + 1]));
    }
    return line;
}

// Strengths of the columns -1 to 4, and of the thread's own; a gradient of four own pixels.
struct Strengths {
    half2 pairs[3], own[2];
};

struct Gradient {
    half2 x[2], y[2];
};

__device__ __forceinline__ void slopes(Strengths &strengths, Gradient &own, const Line &above, const Line &here,
                                       const Line &below, const unsigned (&inside)[3])
{
    half2 gx[3], gy[3];
#pragma unroll
    for (int i = 0; i < 3; i++) {
        gx[i] = __hfma2(here.difference[i], __float2half2_rn(2.0f), __hadd2(above.difference[i], below.difference[i]));
        gy[i] = __hsub2(below.sum[i], above.sum[i]);
        strengths.pairs[i] = pair(bits(__hadd2(__habs2(gx[i]), __habs2(gy[i]))) & inside[i]);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        own.x[i] = between(gx[i], gx[i + 1]);
        own.y[i] = between(gy[i], gy[i + 1]);
        strengths.own[i] = between(strengths.pairs[i], strengths.pairs[i + 1]);
    }
}

__device__ __forceinline__ unsigned choose(unsigned mask, half2 yes, half2 no)
{
    return (bits(yes) & mask) | (bits(no) & ~mask);
}

// Two pixels' marks. A sum that is rounded once keeps its sign, so the comparisons of multiples are exact.
__device__ __forceinline__ unsigned marks_of(int i, const Strengths &above, const Strengths &here,
                                             const Strengths &below, const Gradient &g, half2 low, half2 high)
{
    const half2 zero = __float2half2_rn(0.0f), ax = __habs2(g.x[i]), ay = __habs2(g.y[i]), own = here.own[i];
    const half2 by32 = __float2half2_rn(32.0f);
    const unsigned down = __hgt2_mask(__hfma2(ax, __float2half2_rn(-77.0f), __hmul2(ay, by32)), zero);
    const unsigned slanted = __hgt2_mask(__hfma2(ay, __float2half2_rn(77.0f), __hneg2(__hmul2(ax, by32))), zero);
    const unsigned signs = ((bits(g.x[i]) ^ bits(g.y[i])) >> 15 & 0x00010001u) * 0xffffu;
    const half2 upper = pair(choose(signs, above.pairs[i + 1], above.pairs[i]));
    const half2 lower = pair(choose(signs, below.pairs[i], below.pairs[i + 1]));
    const half2 before = pair(choose(down, above.own[i], pair(choose(slanted, upper, here.pairs[i]))));
    const half2 after = pair(choose(down, below.own[i], pair(choose(slanted, lower, here.pairs[i + 1]))));
    const unsigned top = __hgt2_mask(own, before) & __hge2_mask(own, after) & 0x00010001u;
    return (top & __hge2_mask(own, low)) + (top & __hge2_mask(own, high));
}

// A warp marches down 128 columns, four to a lane. Gradients and strengths of two pixels share a register: all are
// whole numbers up to 2040, which halves hold exactly.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    edges(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges, int height, int width, int low,
          int high)
{
    const int x = (blockIdx.x * 32 * WARPS + threadIdx.x) * 4, first = blockIdx.y * ROWS;
    if (x >= width)
        return;
    const int last = min(first + ROWS, height);
    const half2 least = __float2half2_rn(static_cast<float>(min(max(low, 0), 2048)));
    const half2 strong = __float2half2_rn(static_cast<float>(min(max(high, 0), 2048)));
    unsigned within[3];
#pragma unroll
    for (int i = 0; i < 3; i++) {
        const int col = x - 1 + 2 * i;
        within[i] = (col >= 0 && col < width ? 0xffffu : 0u) | (col + 1 < width ? 0xffff0000u : 0u);
    }
    Line lines[3] = {{}, line_of(load_row(image, x, first - 2, height, width)),
                     line_of(load_row(image, x, first - 1, height, width))};
    Words next = load_row(image, x, first, height, width);
    Strengths strengths[3] = {};
    Gradient own = {}, ahead;
#pragma unroll 3
    for (int y = first - 1; y <= last; y++) {
        lines[0] = lines[1];
        lines[1] = lines[2];
        lines[2] = line_of(next);
        next = load_row(image, x, y + 2, height, width);
        strengths[0] = strengths[1];
        strengths[1] = strengths[2];
        const unsigned here = y >= 0 && y < height ? 0xffffffffu : 0u;
        const unsigned inside[3] = {within[0] & here, within[1] & here, within[2] & here};
        slopes(strengths[2], ahead, lines[0], lines[1], lines[2], inside);
        if (y > first) {
            const unsigned left = marks_of(0, strengths[0], strengths[1], strengths[2], own, least, strong);
            const unsigned right = marks_of(1, strengths[0], strengths[1], strengths[2], own, least, strong);
            const unsigned four = __byte_perm(left, right, 0x6420);
            unsigned char *to = edges + static_cast<size_t>(y - 1) * width + x;
            if (width % 4 == 0) {
                *reinterpret_cast<unsigned *>(to) = four;
            } else {
#pragma unroll
                for (int s = 0; s < 4; s++)
                    if (x + s < width)
                        to[s] = four >> 8 * s;
            }
        }
        own = ahead;
    }
}
