#define COLS 32
#define ROWS 8

// Six neighbouring bytes from any byte on, two pixels of a row: up to three aligned words that reach three bytes further.
__device__ __forceinline__ uint2 six_bytes(const unsigned char *__restrict__ image, size_t at)
{
    const unsigned *word = reinterpret_cast<const unsigned *>(image + at / 4 * 4);
    const int shift = at % 4;
    const unsigned a = __ldg(word), b = __ldg(word + 1), c = __ldg(word + (shift == 3 ? 2 : 1));
    return make_uint2(__funnelshift_r(a, b, 8 * shift), __funnelshift_r(b, c, 8 * shift));
}

// A channel between the two pixels.
__device__ __forceinline__ int between(uint2 six, int channel, int fx)
{
    const int left = six.x >> 8 * channel & 255;
    const int right = channel == 0 ? six.x >> 24 : six.y >> 8 * (channel - 1) & 255;
    return left * (256 - fx) + right * fx;
}

// All channels of four pixels a thread: places and weights once, twelve bytes written as three words.
extern "C" __global__ void __launch_bounds__(COLS *ROWS)
    warp_image(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width,
               int out_height, int out_width, int xx, int xy, int x0, int yx, int yy, int y0)
{
    const int x = (blockIdx.x * COLS + threadIdx.x) * 4, y = blockIdx.y * ROWS + threadIdx.y;
    if (x >= out_width || y >= out_height)
        return;
    unsigned words[3] = {};
    int from_x = xx * x + xy * y + x0, from_y = yx * x + yy * y + y0;
#pragma unroll
    for (int p = 0; p < 4; p++, from_x += xx, from_y += yx) {
        const int left = from_x >> 16, top = from_y >> 16;
        const int fx = from_x >> 8 & 255, fy = from_y >> 8 & 255;
        unsigned sum[3] = {32768, 32768, 32768};
        if (top >= 0 && top + 1 < height && left >= 0 && left + 1 < width &&
            (top + 1) * width + left + 3 <= height * width) {
            const size_t at = (static_cast<size_t>(top) * width + left) * 3;
            const uint2 upper = six_bytes(image, at), lower = six_bytes(image, at + 3 * width);
#pragma unroll
            for (int c = 0; c < 3; c++)
                sum[c] += between(upper, c, fx) * (256 - fy) + between(lower, c, fx) * fy;
        } else {
            for (int tap = 0; tap < 4; tap++) {
                const int i = top + tap / 2, j = left + tap % 2;
                if (i < 0 || i >= height || j < 0 || j >= width)
                    continue;
                const int weight = (tap / 2 ? fy : 256 - fy) * (tap % 2 ? fx : 256 - fx);
                const unsigned char *from = image + (static_cast<size_t>(i) * width + j) * 3;
#pragma unroll
                for (int c = 0; c < 3; c++)
                    sum[c] += weight * __ldg(from + c);
            }
        }
#pragma unroll
        for (int c = 0; c < 3; c++)
            words[(3 * p + c) / 4] |= (sum[c] >> 16) << 8 * ((3 * p + c) % 4);
    }
    unsigned char *to = out + (static_cast<size_t>(y) * out_width + x) * 3;
    if (out_width % 4 == 0) {
#pragma unroll
        for (int w = 0; w < 3; w++)
            reinterpret_cast<unsigned *>(to)[w] = words[w];
    } else {
        const int count = min(4, out_width - x) * 3;
#pragma unroll
        for (int b = 0; b < 12; b++)
            if (b < count)
                to[b] = words[b / 4] >> 8 * (b % 4);
    }
}
