#define COLS 32
#define ROWS 8

// All channels of four pixels per thread: places and weights once, twelve bytes written as three words.
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
        const int weight[4] = {(256 - fy) * (256 - fx), (256 - fy) * fx, fy * (256 - fx), fy * fx};
        unsigned sum[3] = {32768, 32768, 32768};
#pragma unroll
        for (int tap = 0; tap < 4; tap++) {
            const int i = top + tap / 2, j = left + tap % 2;
            if (static_cast<unsigned>(i) < static_cast<unsigned>(height) &&
                static_cast<unsigned>(j) < static_cast<unsigned>(width)) {
                const unsigned char *from = image + (static_cast<size_t>(i) * width + j) * 3;
#pragma unroll
                for (int c = 0; c < 3; c++)
                    sum[c] += weight[tap] * __ldg(from + c);
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
