// A thread marches down eight columns. Pixels are held two to a register in 16-bit halves: word k of a row
// holds pixels (0, 2), (1, 3), (4, 6), (5, 7), with the pixels left and right of the eight beside them.
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

__device__ __forceinline__ unsigned distance2(unsigned a, unsigned b)
{
    return __vmaxu2(a, b) - __vminu2(a, b);
}

__device__ void march8(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges, int height, int width,
                       int x, int first)
{
    const int last = min(first + ROWS, height);
    Row up = load_row(image, x, first - 1, height, width);
    Row mid = load_row(image, x, first, height, width);
#pragma unroll 2
    for (int y = first; y < last; y++) {
        const Row down = load_row(image, x, y + 1, height, width);
        Row sum;
#pragma unroll
        for (int k = 0; k < 4; k++)
            sum.p[k] = up.p[k] + 2 * mid.p[k] + down.p[k];
        sum.left = up.left + 2 * mid.left + down.left;
        sum.right = up.right + 2 * mid.right + down.right;
        unsigned west[4], east[4], up_west[4], up_east[4], down_west[4], down_east[4], strength[4];
        shifted(sum, west, east);
        shifted(up, up_west, up_east);
        shifted(down, down_west, down_east);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const unsigned above = up_west[k] + 2 * up.p[k] + up_east[k];
            const unsigned below = down_west[k] + 2 * down.p[k] + down_east[k];
            strength[k] = __vminu2(distance2(west[k], east[k]) + distance2(above, below), 0x00ff00ffu);
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
