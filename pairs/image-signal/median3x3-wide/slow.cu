// A thread marches down eight columns with pixels two to a register in 16-bit halves. Each column of three is
// sorted once and shared by the three windows it belongs to; the median of nine is then the median of
// (largest low, median middle, smallest high).
#define ROWS 16
#define THREADS 128

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
    for (int k = 0; k < 4; k++)
        sort3(a.p[k], b.p[k], c.p[k], low.p[k], mid.p[k], high.p[k]);
    sort3(a.left, b.left, c.left, low.left, mid.left, high.left);
    sort3(a.right, b.right, c.right, low.right, mid.right, high.right);
    return low;
}

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

__device__ void march8(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width,
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
        unsigned low_west[4], low_east[4], mid_west[4], mid_east[4], high_west[4], high_east[4], result[4];
        shifted(low, low_west, low_east);
        shifted(mid, mid_west, mid_east);
        shifted(high, high_west, high_east);
#pragma unroll
        for (int k = 0; k < 4; k++)
            result[k] = middle2(high2(high2(low_west[k], low.p[k]), low_east[k]),
                                middle2(mid_west[k], mid.p[k], mid_east[k]),
                                low2(low2(high_west[k], high.p[k]), high_east[k]));
        const uint2 packed = make_uint2(result[0] | result[1] << 8, result[2] | result[3] << 8);
        *reinterpret_cast<uint2 *>(out + (size_t)y * width + x) = packed;
        up = here;
        here = down;
    }
}

__device__ Row narrow_row(const unsigned char *__restrict__ image, int x, int y, int height, int width)
{
    const unsigned char *row = image + (size_t)min(max(y, 0), height - 1) * width;
    Row r = {};
    r.left = row[max(x - 1, 0)];
    r.p[0] = row[x];
    r.right = row[min(x + 1, width - 1)];
    return r;
}

__device__ void march1(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width,
                       int x, int first)
{
    for (int y = first; y < min(first + ROWS, height); y++) {
        Row mid, high;
        const Row low = sorted_columns(narrow_row(image, x, y - 1, height, width), narrow_row(image, x, y, height, width),
                                       narrow_row(image, x, y + 1, height, width), mid, high);
        out[(size_t)y * width + x] = middle2(high2(high2(low.left, low.p[0]), low.right),
                                             middle2(mid.left, mid.p[0], mid.right),
                                             low2(low2(high.left, high.p[0]), high.right));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    median3x3(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width)
{
    const int column = blockIdx.x * 8 * THREADS;
    const int first = blockIdx.y * ROWS;
    if (width % 8 == 0) {
        const int x = column + 8 * threadIdx.x;
        if (x < width)
            march8(image, out, height, width, x, first);
    } else {
        for (int x = column + threadIdx.x; x < min(column + 8 * THREADS, width); x += THREADS)
            march1(image, out, height, width, x, first);
    }
}
