// A thread marches down sixteen columns with pixels two to a register in 16-bit halves. Each column of three is
// sorted once and shared by the three windows it belongs to; the median of nine is then the median of
// (largest low, median middle, smallest high).
#define ROWS 16
#define THREADS 128

struct Row {
    unsigned p[8], ends;
};

__device__ __forceinline__ Row load_row(const unsigned char *__restrict__ image, int x, int y, int height, int width)
{
    const unsigned char *row = image + (size_t)min(max(y, 0), height - 1) * width;
    const uint2 *eights = reinterpret_cast<const uint2 *>(row + x);
    const uint2 first = __ldg(eights);
    const unsigned last = __byte_perm(first.y, 0, 0x3333);
    const uint2 second = x + 8 < width ? __ldg(eights + 1) : make_uint2(last, last);
    const unsigned words[4] = {first.x, first.y, second.x, second.y};
    Row r;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        r.p[2 * k] = words[k] & 0x00ff00ffu;
        r.p[2 * k + 1] = (words[k] >> 8) & 0x00ff00ffu;
    }
    const unsigned left = x > 0 ? __ldg(row + x - 1) : first.x & 255u;
    const unsigned right = x + 16 < width ? __ldg(row + x + 16) : second.y >> 24;
    r.ends = left | right << 16;
    return r;
}

__device__ __forceinline__ unsigned low2(unsigned a, unsigned b)
{
    return __vminu2(a, b);
}

__device__ __forceinline__ unsigned high2(unsigned a, unsigned b)
{
    return __vmaxu2(a, b);
}

__device__ __forceinline__ unsigned middle2(unsigned a, unsigned b, unsigned c)
{
    return high2(low2(a, b), low2(high2(a, b), c));
}

__device__ __forceinline__ void sort3(unsigned a, unsigned b, unsigned c, unsigned &low, unsigned &mid, unsigned &high)
{
    const unsigned small = low2(a, b), large = high2(a, b);
    const unsigned rest = low2(large, c);
    high = high2(large, c);
    low = low2(small, rest);
    mid = high2(small, rest);
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

__device__ __forceinline__ void shifted(const Row &r, unsigned (&west)[8], unsigned (&east)[8])
{
#pragma unroll
    for (int k = 0; k < 8; k += 2) {
        west[k] = __funnelshift_r(k > 0 ? r.p[k - 1] : r.ends << 16, r.p[k + 1], 16);
        west[k + 1] = r.p[k];
        east[k] = r.p[k + 1];
        east[k + 1] = k < 6 ? __funnelshift_r(r.p[k], r.p[k + 2], 16) : __byte_perm(r.p[k], r.ends, 0x7632);
    }
}

__device__ void march16(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width,
                       int x, int first)
{
    const int last = min(first + ROWS, height);
    Row up = load_row(image, x, first - 1, height, width);
    Row here = load_row(image, x, first, height, width);
#pragma unroll 2
    for (int y = first; y < last; y++) {
        const Row down = load_row(image, x, y + 1, height, width);
        Row mid, high;
        const Row low = sorted_columns(up, here, down, mid, high);
        unsigned low_west[8], low_east[8], mid_west[8], mid_east[8], high_west[8], high_east[8], result[8];
        shifted(low, low_west, low_east);
        shifted(mid, mid_west, mid_east);
        shifted(high, high_west, high_east);
#pragma unroll
        for (int k = 0; k < 8; k++)
            result[k] = middle2(high2(high2(low_west[k], low.p[k]), low_east[k]),
                                middle2(mid_west[k], mid.p[k], mid_east[k]),
                                low2(low2(high_west[k], high.p[k]), high_east[k]));
        uint2 *place = reinterpret_cast<uint2 *>(out + (size_t)y * width + x);
        place[0] = make_uint2(result[0] | result[1] << 8, result[2] | result[3] << 8);
        if (x + 8 < width)
            place[1] = make_uint2(result[4] | result[5] << 8, result[6] | result[7] << 8);
        up = here;
        here = down;
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
        out[(size_t)y * width + x] = middle2(high2(high2(low[0], low[1]), low[2]), middle2(mid[0], mid[1], mid[2]),
                                             low2(low2(high[0], high[1]), high[2]));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    median3x3(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width)
{
    const int column = blockIdx.x * 16 * THREADS;
    const int first = blockIdx.y * ROWS;
    if (width % 8 == 0) {
        const int x = column + 16 * threadIdx.x;
        if (x < width)
            march16(image, out, height, width, x, first);
    } else {
        for (int x = column + threadIdx.x; x < min(column + 16 * THREADS, width); x += THREADS)
            march1(image, out, height, width, x, first);
    }
}
