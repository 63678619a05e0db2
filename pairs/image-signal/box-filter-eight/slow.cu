// A warp marches down 128 columns, four to a lane. Sums along a row come from products of four bytes with ones and
// slide over the lane's four pixels; those of the last WINDOW rows wait in shared memory until they leave the sum.
#define WARPS 4
#define ROWS 64

template <int WORDS>
__device__ __forceinline__ void load_row(unsigned (&words)[WORDS], const unsigned char *__restrict__ image, int x, int y,
                                         int height, int width)
{
    const unsigned char *row = image + static_cast<size_t>(min(max(y, 0), height - 1)) * width;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        const int at = x + 4 * i;
        if (width % 4 == 0 && at >= 0 && at < width) {
            words[i] = __ldg(reinterpret_cast<const unsigned *>(row + at));
        } else {
            words[i] = 0;
#pragma unroll
            for (int s = 0; s < 4; s++)
                words[i] |= static_cast<unsigned>(row[min(max(at + s, 0), width - 1)]) << 8 * s;
        }
    }
}

template <int WORDS> __device__ __forceinline__ unsigned byte_at(const unsigned (&words)[WORDS], int byte)
{
    return words[byte / 4] >> byte % 4 * 8 & 255u;
}

template <int RADIUS>
__global__ void __launch_bounds__(32 * WARPS)
    box(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width)
{
    constexpr int WINDOW = 2 * RADIUS + 1, REACH = (RADIUS + 3) / 4, WORDS = 2 * REACH + 1;
    constexpr int SHIFT = 4 * REACH - RADIUS;
    __shared__ uint2 recent[WARPS][WINDOW][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int col = (blockIdx.x * WARPS + warp) * 128 + 4 * lane, x = col - 4 * REACH;
    const int first = blockIdx.y * ROWS, last = min(first + ROWS, height);
    constexpr unsigned area = WINDOW * WINDOW, reciprocal = 0xffffffffu / area + 1;
    unsigned words[WORDS], sum[4] = {};
    load_row(words, image, x, first - RADIUS, height, width);
    int slot = 0;
    for (int y = first - RADIUS; y < last + RADIUS; y++) {
        unsigned shifted[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            shifted[i] = __funnelshift_r(words[i], i + 1 < WORDS ? words[i + 1] : 0u, 8 * SHIFT);
        load_row(words, image, x, y + 1, height, width);
        unsigned line[4] = {};
#pragma unroll
        for (int i = 0; i < WINDOW / 4; i++)
            line[0] = __dp4a(shifted[i], 0x01010101u, line[0]);
        line[0] = __dp4a(shifted[WINDOW / 4], 0x01010101u >> (4 - WINDOW % 4) * 8, line[0]);
#pragma unroll
        for (int s = 1; s < 4; s++)
            line[s] = line[s - 1] + byte_at(shifted, WINDOW + s - 1) - byte_at(shifted, s - 1);
        uint2 &place = recent[warp][slot][lane];
        if (y >= first + RADIUS + 1) {
            const uint2 leaving = place;
            sum[0] -= leaving.x & 0xffffu;
            sum[1] -= leaving.x >> 16;
            sum[2] -= leaving.y & 0xffffu;
            sum[3] -= leaving.y >> 16;
        }
        place = make_uint2(line[0] | line[1] << 16, line[2] | line[3] << 16);
        slot = slot + 1 == WINDOW ? 0 : slot + 1;
#pragma unroll
        for (int s = 0; s < 4; s++)
            sum[s] += line[s];
        if (y < first + RADIUS || col >= width)
            continue;
        unsigned char mean[4];
#pragma unroll
        for (int s = 0; s < 4; s++)
            mean[s] = __umulhi(sum[s] + area / 2, reciprocal);
        unsigned char *to = out + static_cast<size_t>(y - RADIUS) * width + col;
        if (width % 4 == 0) {
            *reinterpret_cast<uchar4 *>(to) = make_uchar4(mean[0], mean[1], mean[2], mean[3]);
        } else {
#pragma unroll
            for (int s = 0; s < 4; s++)
                if (col + s < width)
                    to[s] = mean[s];
        }
    }
}
