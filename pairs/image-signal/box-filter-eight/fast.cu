// A warp marches down 256 columns, eight to a lane. Sums along a row come from products of four bytes with ones and slide
// over four pixels; those of the last WINDOW rows wait in shared memory until they leave the sum. Sums of two pixels
// share a register where both fit.
#define WARPS 2
#define ROWS 64
#define EACH 2
#define PIXELS (4 * EACH)

template <int WORDS>
__device__ __forceinline__ void load_row(unsigned (&words)[WORDS], const unsigned char *__restrict__ image, int x, int y,
                                         int height, int width, bool plain)
{
    const unsigned char *row = image + static_cast<size_t>(min(max(y, 0), height - 1)) * width;
    if (plain) {
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            words[i] = __ldg(reinterpret_cast<const unsigned *>(row + x) + i);
        return;
    }
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        words[i] = 0;
#pragma unroll
        for (int s = 0; s < 4; s++)
            words[i] |= static_cast<unsigned>(row[min(max(x + 4 * i + s, 0), width - 1)]) << 8 * s;
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
    constexpr int WINDOW = 2 * RADIUS + 1, REACH = (RADIUS + 3) / 4, WORDS = 2 * REACH + EACH;
    constexpr int SHIFT = 4 * REACH - RADIUS;
    constexpr unsigned area = WINDOW * WINDOW, reciprocal = 0xffffffffu / area + 1;
    constexpr bool packed = area * 255 < 65536;
    __shared__ uint4 recent[WARPS][WINDOW][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int col = (blockIdx.x * WARPS + warp) * 32 * PIXELS + PIXELS * lane, x = col - 4 * REACH;
    const int first = blockIdx.y * ROWS, last = min(first + ROWS, height);
    const bool plain = width % 4 == 0 && x >= 0 && x + 4 * WORDS <= width;
    if (col >= width)
        return;
    unsigned words[WORDS], sum[packed ? PIXELS / 2 : PIXELS] = {};
    load_row(words, image, x, first - RADIUS, height, width, plain);
    int slot = 0;
#pragma unroll 1
    for (int y = first - RADIUS; y < last + RADIUS; y++) {
        unsigned shifted[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            shifted[i] = __funnelshift_r(words[i], i + 1 < WORDS ? words[i + 1] : 0u, 8 * SHIFT);
        load_row(words, image, x, y + 1, height, width, plain);
        unsigned line[PIXELS];
#pragma unroll
        for (int part = 0; part < EACH; part++) {
            unsigned own = 0;
#pragma unroll
            for (int i = 0; i < WINDOW / 4; i++)
                own = __dp4a(shifted[part + i], 0x01010101u, own);
            line[4 * part] = __dp4a(shifted[part + WINDOW / 4], 0x01010101u >> (4 - WINDOW % 4) * 8, own);
#pragma unroll
            for (int s = 4 * part + 1; s < 4 * part + 4; s++)
                line[s] = line[s - 1] + byte_at(shifted, WINDOW + s - 1) - byte_at(shifted, s - 1);
        }
        uint4 &place = recent[warp][slot][lane];
        uint4 leaving = make_uint4(0, 0, 0, 0);
        if (y > first + RADIUS)
            leaving = place;
        const uint4 coming = make_uint4(line[0] | line[1] << 16, line[2] | line[3] << 16, line[4] | line[5] << 16,
                                        line[6] | line[7] << 16);
        place = coming;
        slot = slot + 1 == WINDOW ? 0 : slot + 1;
        const unsigned more[4] = {coming.x, coming.y, coming.z, coming.w};
        const unsigned less[4] = {leaving.x, leaving.y, leaving.z, leaving.w};
#pragma unroll
        for (int k = 0; k < PIXELS / 2; k++) {
            if constexpr (packed) {
                sum[k] += more[k] - less[k];
            } else {
                sum[2 * k] += (more[k] & 0xffffu) - (less[k] & 0xffffu);
                sum[2 * k + 1] += (more[k] >> 16) - (less[k] >> 16);
            }
        }
        if (y < first + RADIUS)
            continue;
        unsigned mean[PIXELS];
#pragma unroll
        for (int s = 0; s < PIXELS; s++) {
            unsigned own;
            if constexpr (packed)
                own = s % 2 ? sum[s / 2] >> 16 : sum[s / 2] & 0xffffu;
            else
                own = sum[s];
            mean[s] = __umulhi(own + area / 2, reciprocal);
        }
        unsigned char *to = out + static_cast<size_t>(y - RADIUS) * width + col;
        if (width % PIXELS == 0) {
            *reinterpret_cast<uint2 *>(to) =
                make_uint2(__byte_perm(mean[0] | mean[1] << 8, mean[2] | mean[3] << 8, 0x5410),
                           __byte_perm(mean[4] | mean[5] << 8, mean[6] | mean[7] << 8, 0x5410));
        } else {
#pragma unroll
            for (int s = 0; s < PIXELS; s++)
                if (col + s < width)
                    to[s] = mean[s];
        }
    }
}
