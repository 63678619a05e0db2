// A thread marches down sixteen columns. Pixels are held two to a register in 16-bit halves: words 2k and 2k + 1 of a
// row hold pixels (4k, 4k + 2) and (4k + 1, 4k + 3); the pixels left and right of the sixteen share a word.
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

// Pixel pairs one to the left (`west`) and one to the right (`east`) of the eight words.
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

__device__ __forceinline__ unsigned distance2(unsigned a, unsigned b)
{
    return __vmaxu2(a, b) - __vminu2(a, b);
}

__device__ void march16(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges, int height, int width,
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
        for (int k = 0; k < 8; k++)
            sum.p[k] = up.p[k] + 2 * mid.p[k] + down.p[k];
        sum.ends = up.ends + 2 * mid.ends + down.ends;
        unsigned west[8], east[8], up_west[8], up_east[8], down_west[8], down_east[8], strength[8];
        shifted(sum, west, east);
        shifted(up, up_west, up_east);
        shifted(down, down_west, down_east);
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const unsigned above = up_west[k] + 2 * up.p[k] + up_east[k];
            const unsigned below = down_west[k] + 2 * down.p[k] + down_east[k];
            strength[k] = __vminu2(distance2(west[k], east[k]) + distance2(above, below), 0x00ff00ffu);
        }
        uint2 *place = reinterpret_cast<uint2 *>(edges + (size_t)y * width + x);
        place[0] = make_uint2(strength[0] | strength[1] << 8, strength[2] | strength[3] << 8);
        if (x + 8 < width)
            place[1] = make_uint2(strength[4] | strength[5] << 8, strength[6] | strength[7] << 8);
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
    const int column = blockIdx.x * 16 * THREADS;
    const int first = blockIdx.y * ROWS;
    if (width % 8 == 0) {
        const int x = column + 16 * threadIdx.x;
        if (x < width)
            march16(image, edges, height, width, x, first);
    } else {
        for (int x = column + threadIdx.x; x < min(column + 16 * THREADS, width); x += THREADS)
            march1(image, edges, height, width, x, first);
    }
}
