#define TILE_X 64
#define TILE_Y 32
#define WARPS 8
#define THREADS (32 * WARPS)
#define STRIDE (THREADS / TILE_X)
#define STEPS 4
// The most pixels and rows of the source that a tile may meet in shared memory. Where a row's places are a multiple of
// 32, lanes whose way steps down a row still meet different banks.
#define PITCH 96
#define HIGH 44
#define FULL 0xffffffffu

// Four pixels of a row, a word each, whose highest byte says nothing; zeros outside the image.
__device__ __forceinline__ uint4 four_pixels(const unsigned char *__restrict__ image, int x, int y, int height, int width)
{
    unsigned pixel[4] = {};
    if (y >= 0 && y < height) {
        const unsigned char *row = image + static_cast<size_t>(y) * width * 3;
#pragma unroll
        for (int p = 0; p < 4; p++)
            if (x + p >= 0 && x + p < width) {
                const unsigned char *from = row + 3 * (x + p);
                pixel[p] = from[0] | from[1] << 8 | from[2] << 16;
            }
    }
    return make_uint4(pixel[0], pixel[1], pixel[2], pixel[3]);
}

// The part of the source to shared memory; the words of STEPS times four pixels a thread are on their way at once.
__device__ __forceinline__ void fill(uint4 *tile, const unsigned char *__restrict__ image, int left, int top, int chunks,
                                     int rows, int height, int width)
{
    const unsigned inverse = 65536 / chunks + 1;
    const int items = rows * chunks;
    if (width % 4 != 0) {
        for (int item = threadIdx.x; item < items; item += THREADS) {
            const int row = item * inverse >> 16, chunk = item - row * chunks;
            tile[row * (PITCH / 4) + chunk] = four_pixels(image, left + 4 * chunk, top + row, height, width);
        }
        return;
    }
    for (int begin = threadIdx.x; begin < items; begin += STEPS * THREADS) {
        unsigned words[STEPS][3];
#pragma unroll
        for (int u = 0; u < STEPS; u++) {
            const int item = begin + u * THREADS, row = item * inverse >> 16, chunk = item - row * chunks;
            const int x = left + 4 * chunk, y = top + row;
            const bool inside = item < items && x >= 0 && x < width && y >= 0 && y < height;
            const unsigned *from = reinterpret_cast<const unsigned *>(image + (static_cast<long long>(y) * width + x) * 3);
#pragma unroll
            for (int w = 0; w < 3; w++)
                words[u][w] = inside ? __ldg(from + w) : 0;
        }
#pragma unroll
        for (int u = 0; u < STEPS; u++) {
            const int item = begin + u * THREADS, row = item * inverse >> 16, chunk = item - row * chunks;
            if (item < items)
                tile[row * (PITCH / 4) + chunk] =
                    make_uint4(words[u][0], __byte_perm(words[u][0], words[u][1], 0x6543),
                               __byte_perm(words[u][1], words[u][2], 0x5432), words[u][2] >> 8);
        }
    }
}

// A channel between two pixels: weights 256 - fx and fx, of which the first takes two bytes.
template <int CHANNEL> __device__ __forceinline__ unsigned between(unsigned left, unsigned right, unsigned weights)
{
    return __dp4a(__byte_perm(left, right, CHANNEL | CHANNEL + 4 << 4 | CHANNEL << 8), weights, 0u);
}

template <int CHANNEL>
__device__ __forceinline__ unsigned channel_of(uint2 upper, uint2 lower, unsigned weights, unsigned fy)
{
    return between<CHANNEL>(upper.x, upper.y, weights) * (256 - fy) +
           (between<CHANNEL>(lower.x, lower.y, weights) * fy + 32768);
}

// Four neighbours and their weights: three channels in the low bytes.
__device__ __forceinline__ unsigned blend(uint2 upper, uint2 lower, unsigned fx, unsigned fy)
{
    const unsigned weights = fx * 255u + 0x000100ffu; // 255 - fx, fx, 1, 0
    const unsigned red = channel_of<0>(upper, lower, weights, fy), green = channel_of<1>(upper, lower, weights, fy);
    return __byte_perm(__byte_perm(red, green, 0x7762), channel_of<2>(upper, lower, weights, fy), 0x7610);
}

__device__ __forceinline__ unsigned pixel_at(const unsigned char *__restrict__ image, int x, int y, int height, int width)
{
    if (x < 0 || x >= width || y < 0 || y >= height)
        return 0;
    const unsigned char *from = image + (static_cast<size_t>(y) * width + x) * 3;
    return from[0] | from[1] << 8 | from[2] << 16;
}

// The part of the source that a tile of 64 x 32 pixels meets goes to shared memory first, a word a pixel and zeros outside
// the image; a pixel then is four words from there, and a channel's weighted sum across is one instruction.
// Neighbouring lanes have neighbouring pixels; of four, three write a word each.
extern "C" __global__ void __launch_bounds__(THREADS)
    warp_image(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width,
               int out_height, int out_width, int xx, int xy, int x0, int yx, int yy, int y0)
{
    __shared__ uint4 tile[HIGH * PITCH / 4];
    const int begin_x = blockIdx.x * TILE_X, begin_y = blockIdx.y * TILE_Y;
    const int last_x = min(begin_x + TILE_X, out_width) - 1, last_y = min(begin_y + TILE_Y, out_height) - 1;
    // The corners tell which places of the source the tile meets.
    const int corner_x = xx * begin_x + xy * begin_y + x0, corner_y = yx * begin_x + yy * begin_y + y0;
    const int right_x = xx * (last_x - begin_x), down_x = xy * (last_y - begin_y);
    const int right_y = yx * (last_x - begin_x), down_y = yy * (last_y - begin_y);
    const int left = (corner_x + min(right_x, 0) + min(down_x, 0)) >> 18 << 2;
    const int top = (corner_y + min(right_y, 0) + min(down_y, 0)) >> 16;
    const int chunks = ((corner_x + max(right_x, 0) + max(down_x, 0)) >> 16) + 1 - left + 4 >> 2;
    const int rows = ((corner_y + max(right_y, 0) + max(down_y, 0)) >> 16) + 2 - top;
    const bool staged = chunks <= PITCH / 4 && rows <= HIGH && out_width % 4 == 0;
    if (staged) {
        fill(tile, image, left, top, chunks, rows, height, width);
        __syncthreads();
    }
    // Threads past the image's side repeat its last pixel, and write nothing.
    const int x = begin_x + threadIdx.x % TILE_X, y = begin_y + threadIdx.x / TILE_X, part = threadIdx.x % 4;
    int from_x = corner_x + xx * (min(x, last_x) - begin_x) + xy * (y - begin_y);
    int from_y = corner_y + yx * (min(x, last_x) - begin_x) + yy * (y - begin_y);
    const size_t place = static_cast<size_t>(y) * out_width + x;
    if (staged) {
        const unsigned *pixels = reinterpret_cast<const unsigned *>(tile);
        const int before = top * PITCH + left;
        const bool writes = part < 3 && x <= last_x;
        unsigned char *to = out + (place - part) * 3 + 4 * part;
#pragma unroll 4
        for (int row = y; row <= last_y; row += STRIDE) {
            const unsigned *at = pixels + ((from_y >> 16) * PITCH + (from_x >> 16) - before);
            const unsigned pixel = blend(make_uint2(at[0], at[1]), make_uint2(at[PITCH], at[PITCH + 1]),
                                         from_x >> 8 & 255, from_y >> 8 & 255);
            // Word k of three has the last bytes of pixel k and the first of the next.
            const unsigned next = __shfl_down_sync(FULL, pixel, 1);
            const unsigned word = __funnelshift_r(__byte_perm(pixel, next, 0x4210), next >> 8, 8 * part);
            if (writes)
                *reinterpret_cast<unsigned *>(to) = word;
            to += static_cast<size_t>(3 * STRIDE) * out_width;
            from_x += STRIDE * xy;
            from_y += STRIDE * yy;
        }
        return;
    }
    unsigned char *to = out + place * 3;
    for (int row = y; row <= last_y && x <= last_x; row += STRIDE) {
        const int j = from_x >> 16, i = from_y >> 16;
        const unsigned pixel =
            blend(make_uint2(pixel_at(image, j, i, height, width), pixel_at(image, j + 1, i, height, width)),
                  make_uint2(pixel_at(image, j, i + 1, height, width), pixel_at(image, j + 1, i + 1, height, width)),
                  from_x >> 8 & 255, from_y >> 8 & 255);
#pragma unroll
        for (int c = 0; c < 3; c++)
            to[c] = pixel >> 8 * c;
        to += static_cast<size_t>(3 * STRIDE) * out_width;
        from_x += STRIDE * xy;
        from_y += STRIDE * yy;
    }
}
