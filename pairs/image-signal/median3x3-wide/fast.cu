#include <cuda_fp16.h>

// A thread marches down sixteen columns, three rows on their way, with pixels two to a register in 16-bit halves. The least
// and the largest of three are one instruction; the middle one is what is left of their sum, added as halves (the bits of a
// whole number below 2048 are that many times the least half above zero), which leaves the integer units to the rest. The
// median of nine is the median of (largest low, median middle, smallest high) of the three sorted columns.
#define ROWS 38
#define AHEAD 3
#define THREADS 128
#define ALL 0xffffffffu

// Sixteen pixels, and the one left of the warp or the one right of it.
struct Raw {
    uint4 own;
    unsigned beside;
};

struct Row {
    unsigned p[8], ends;
};

// Which byte a lane lends to the one left of it: lanes behind the image lend the last.
struct Edges {
    bool first, last;
    unsigned lent;
};

// WIDE: rows are a multiple of 16 pixels; otherwise of 8, and the last pixel stands for the eight behind it.
template <bool WIDE> __device__ __forceinline__ Raw load_raw(const unsigned char *own, const unsigned char *beside, bool whole)
{
    Raw raw;
    if (WIDE) {
        raw.own = __ldg(reinterpret_cast<const uint4 *>(own));
    } else {
        const uint2 low = __ldg(reinterpret_cast<const uint2 *>(own));
        const unsigned last = __byte_perm(low.y, 0, 0x3333);
        const uint2 high = whole ? __ldg(reinterpret_cast<const uint2 *>(own) + 1) : make_uint2(last, last);
        raw.own = make_uint4(low.x, low.y, high.x, high.y);
    }
    raw.beside = __ldg(beside);
    return raw;
}

__device__ __forceinline__ Row row_of(const Raw &raw, const Edges &edges)
{
    const unsigned words[4] = {raw.own.x, raw.own.y, raw.own.z, raw.own.w};
    Row r;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        r.p[2 * k] = __byte_perm(words[k], 0, 0x4240);
        r.p[2 * k + 1] = __byte_perm(words[k], 0, 0x4341);
    }
    unsigned left = __shfl_up_sync(ALL, words[3] >> 24, 1);
    unsigned right = __shfl_down_sync(ALL, __byte_perm(words[0], words[3], edges.lent), 1) & 255u;
    left = edges.first ? raw.beside : left;
    right = edges.last ? raw.beside : right;
    r.ends = __byte_perm(left, right, 0x5410);
    return r;
}

__device__ __forceinline__ half2 pair(unsigned bits) { return *reinterpret_cast<const half2 *>(&bits); }

__device__ __forceinline__ unsigned bits(half2 v) { return *reinterpret_cast<const unsigned *>(&v); }

__device__ __forceinline__ void sort3(unsigned a, unsigned b, unsigned c, unsigned &low, unsigned &mid, unsigned &high)
{
    low = __vimin3_u16x2(a, b, c);
    high = __vimax3_u16x2(a, b, c);
    mid = bits(__hsub2(__hsub2(__hadd2(__hadd2(pair(a), pair(b)), pair(c)), pair(low)), pair(high)));
}

__device__ __forceinline__ unsigned middle(unsigned a, unsigned b, unsigned c)
{
    unsigned low, mid, high;
    sort3(a, b, c, low, mid, high);
    return mid;
}

__device__ __forceinline__ Row sorted_columns(const Row &a, const Row &b, const Row &c, Row &mid, Row &high)
{
    Row low;
#pragma unroll
    for (int k = 0; k < 8; k++)
        sort3(a.p[k], b.p[k], c.p[k], low.p[k], mid.p[k], high.p[k]);
    sort3(a.ends, b.ends, c.ends, low.ends, mid.ends, high.ends);
    return low;
}

// Pixel pairs one to the left and one to the right of word k.
__device__ __forceinline__ unsigned west(const Row &r, int k)
{
    if (k % 2)
        return r.p[k - 1];
    return k > 0 ? __byte_perm(r.p[k > 0 ? k - 1 : 0], r.p[k + 1], 0x5432) : __byte_perm(r.ends, r.p[1], 0x5410);
}

__device__ __forceinline__ unsigned east(const Row &r, int k)
{
    if (k % 2 == 0)
        return r.p[k + 1];
    return k < 7 ? __byte_perm(r.p[k - 1], r.p[k < 7 ? k + 1 : 0], 0x5432) : __byte_perm(r.p[6], r.ends, 0x7632);
}

template <bool WIDE>
__device__ __forceinline__ void march16(const unsigned char *__restrict__ image, unsigned char *__restrict__ out,
                                        int height, int width, int column, int first)
{
    const int last = min(first + ROWS, height), lane = threadIdx.x % 32, start = column - 16 * lane;
    if (start >= width)
        return;
    const int x = min(column, (width - 1) / 16 * 16);
    const bool whole = x + 16 <= width;
    const Edges edges = {lane == 0, lane == 31, column < width ? 0u : 7u};
    const unsigned char *own = image + (size_t)max(first - 1, 0) * width + x;
    const unsigned char *beside = own + (lane < 16 ? max(start - 1, 0) : min(start + 512, width - 1)) - x;
    Raw ahead[AHEAD];
    Row rows[3];
#pragma unroll
    for (int k = 0; k < AHEAD + 2; k++) {
        const Raw raw = load_raw<WIDE>(own, beside, whole);
        if (k < 2)
            rows[k] = row_of(raw, edges);
        else
            ahead[k < 2 ? 0 : k - 2] = raw;
        const int step = first + k > 0 && first + k < height ? width : 0;
        own += step;
        beside += step;
    }
    unsigned char *to = out + (size_t)first * width + x;
#pragma unroll 1
    for (int base = first; base < last; base += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int y = base + k;
            if (y >= last)
                break;
            Row mid, high;
            rows[(k + 2) % 3] = row_of(ahead[k], edges);
            if (y + 1 + AHEAD <= last) {
                ahead[k] = load_raw<WIDE>(own, beside, whole);
                const int step = y + 2 + AHEAD < height ? width : 0;
                own += step;
                beside += step;
            }
            const Row low = sorted_columns(rows[k % 3], rows[(k + 1) % 3], rows[(k + 2) % 3], mid, high);
            unsigned result[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                result[i] = middle(__vimax3_u16x2(west(low, i), low.p[i], east(low, i)),
                                   middle(west(mid, i), mid.p[i], east(mid, i)),
                                   __vimin3_u16x2(west(high, i), high.p[i], east(high, i)));
            const uint4 packed = make_uint4(result[1] * 256 + result[0], result[3] * 256 + result[2],
                                            result[5] * 256 + result[4], result[7] * 256 + result[6]);
            if (column < width) {
                if (WIDE) {
                    __stcs(reinterpret_cast<uint4 *>(to), packed);
                } else {
                    *reinterpret_cast<uint2 *>(to) = make_uint2(packed.x, packed.y);
                    if (whole)
                        *(reinterpret_cast<uint2 *>(to) + 1) = make_uint2(packed.z, packed.w);
                }
            }
            to += width;
        }
    }
}

__device__ void march1(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width,
                       int x, int first)
{
    const int left = max(x - 1, 0), right = min(x + 1, width - 1);
    for (int y = first; y < min(first + ROWS, height); y++) {
        const unsigned char *up = image + (size_t)max(y - 1, 0) * width, *here = image + (size_t)y * width;
        const unsigned char *down = image + (size_t)min(y + 1, height - 1) * width;
        unsigned low[3], mid[3], high[3];
        sort3(up[left], here[left], down[left], low[0], mid[0], high[0]);
        sort3(up[x], here[x], down[x], low[1], mid[1], high[1]);
        sort3(up[right], here[right], down[right], low[2], mid[2], high[2]);
        out[(size_t)y * width + x] = middle(__vimax3_u16x2(low[0], low[1], low[2]), middle(mid[0], mid[1], mid[2]),
                                            __vimin3_u16x2(high[0], high[1], high[2]));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    median3x3(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width)
{
    const int column = blockIdx.x * 16 * THREADS;
    const int first = blockIdx.y * ROWS;
    if (width % 16 == 0) {
        march16<true>(image, out, height, width, column + 16 * threadIdx.x, first);
    } else if (width % 8 == 0) {
        march16<false>(image, out, height, width, column + 16 * threadIdx.x, first);
    } else {
        for (int x = column + threadIdx.x; x < min(column + 16 * THREADS, width); x += THREADS)
            march1(image, out, height, width, x, first);
    }
}
