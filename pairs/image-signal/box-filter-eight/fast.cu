// A warp marches down 240 columns, eight to a lane; its first and last lane only help. Sums of columns slide down, two of 16
// bits to a register: the row that leaves is read again, mostly from the L1 cache. Sums along a row come from sums of the
// first few and the last few of a lane's columns, which the neighbouring lanes hand over.
#define WARPS 2
#define ROWS 104
#define PIXELS 8
#define STRIP (30 * PIXELS)
#define AHEAD 4
#define ALL 0xffffffffu

// Two columns each: columns 2k and 2k + 1.
struct Pairs {
    unsigned p[PIXELS / 2];
};

// How a lane's eight bytes stand for its columns: outside the image its nearest pixel stands for all. Only warps near the
// image's rim (RIM) ask for that, and for rows outside.
struct Rim {
    unsigned low, high;
};

template <bool RIM> __device__ __forceinline__ Pairs widen(uint2 eight, const Rim &rim)
{
    if (RIM)
        eight = make_uint2(__byte_perm(eight.x, eight.y, rim.low), __byte_perm(eight.x, eight.y, rim.high));
    return {__byte_perm(eight.x, 0, 0x4140), __byte_perm(eight.x, 0, 0x4342), __byte_perm(eight.y, 0, 0x4140),
            __byte_perm(eight.y, 0, 0x4342)};
}

template <bool RIM>
__device__ __forceinline__ uint2 load_eight(const unsigned char *__restrict__ image, int x, int y, int height, int width)
{
    const int row = RIM ? min(max(y, 0), height - 1) : y;
    return __ldg(reinterpret_cast<const uint2 *>(image + static_cast<size_t>(row) * width + x));
}

// Of a column's neighbours to the left, those in the lane to the left; likewise to the right; then all within reach.
template <int RADIUS> __device__ __forceinline__ Pairs along(const Pairs &column)
{
    Pairs upto, result;
    unsigned before = 0;
#pragma unroll
    for (int k = 0; k < PIXELS / 2; k++) {
        upto.p[k] = column.p[k] * 0x00010001u + before;
        before = __byte_perm(upto.p[k], 0, 0x3232);
    }
    // Column i of eight reaches from i - RADIUS to i + RADIUS.
    unsigned sums[PIXELS], left[PIXELS], right[PIXELS];
#pragma unroll
    for (int k = 0; k < PIXELS / 2; k++)
        result.p[k] = 0;
    if constexpr (RADIUS == PIXELS - 1) {
#pragma unroll
        for (int k = 0; k < PIXELS / 2; k++) {
            const unsigned behind = __shfl_up_sync(ALL, before - upto.p[k], 1);
            const unsigned ahead = __shfl_down_sync(ALL, upto.p[k] - column.p[k], 1);
            result.p[k] = behind + before + ahead;
        }
    } else {
#pragma unroll
        for (int i = 0; i < PIXELS; i++)
            sums[i] = i % 2 ? upto.p[i / 2] >> 16 : upto.p[i / 2] & 0xffffu;
#pragma unroll
        for (int i = 0; i < PIXELS; i++) {
            left[i] = __shfl_up_sync(ALL, sums[PIXELS - 1] - sums[i], 1);
            right[i] = __shfl_down_sync(ALL, sums[i], 1);
        }
#pragma unroll
        for (int i = 0; i < PIXELS; i++) {
            const int first = i - RADIUS, last = i + RADIUS;
            unsigned sum = sums[last < PIXELS ? last : PIXELS - 1];
            if (first > 0)
                sum -= sums[first > 0 ? first - 1 : 0];
            if (first < 0)
                sum += left[first < 0 ? PIXELS + first - 1 : 0];
            if (last >= PIXELS)
                sum += right[last >= PIXELS ? last - PIXELS : 0];
            result.p[i / 2] |= sum << i % 2 * 16;
        }
    }
    return result;
}

template <int RADIUS> __device__ __forceinline__ uint2 means(const Pairs &sums)
{
    constexpr unsigned AREA = (2 * RADIUS + 1) * (2 * RADIUS + 1), RECIPROCAL = (1u << 24) / AREA + 1;
    static_assert((255ull * AREA + AREA / 2) * (1ull * RECIPROCAL * AREA - (1u << 24)) < (1u << 24), "quotients are exact");
    unsigned mean[PIXELS];
#pragma unroll
    for (int i = 0; i < PIXELS; i++)
        mean[i] = (i % 2 ? sums.p[i / 2] >> 16 : sums.p[i / 2] & 0xffffu) * RECIPROCAL + AREA / 2 * RECIPROCAL;
    uint2 result;
    result.x = __byte_perm(__byte_perm(mean[0], mean[1], 0x0073), __byte_perm(mean[2], mean[3], 0x0073), 0x5410);
    result.y = __byte_perm(__byte_perm(mean[4], mean[5], 0x0073), __byte_perm(mean[6], mean[7], 0x0073), 0x5410);
    return result;
}

template <int RADIUS, bool RIM>
__device__ __forceinline__ void march(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height,
                                      int width, int col, int first)
{
    const int lane = threadIdx.x % 32, last = min(first + ROWS, height), x = min(max(col, 0), width - PIXELS);
    const Rim rim = {col < 0 ? 0u : col < width ? 0x3210u : 0x7777u, col < 0 ? 0u : col < width ? 0x7654u : 0x7777u};
    const bool writes = lane > 0 && lane < 31 && col < width;
    uint2 come[AHEAD], go[AHEAD];
    Pairs column = {};
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        come[k] = load_eight<RIM>(image, x, first + RADIUS + k, height, width);
        go[k] = load_eight<RIM>(image, x, first - RADIUS + k, height, width);
    }
#pragma unroll
    for (int y = -RADIUS; y < RADIUS; y++) {
        const Pairs more = widen<RIM>(load_eight<RIM>(image, x, first + y, height, width), rim);
#pragma unroll
        for (int k = 0; k < PIXELS / 2; k++)
            column.p[k] += more.p[k];
    }
    unsigned char *to = out + static_cast<size_t>(first) * width + x;
    const unsigned char *coming = image + static_cast<size_t>(first + AHEAD + RADIUS) * width + x;
    const unsigned char *going = image + static_cast<size_t>(first + AHEAD) * width - static_cast<size_t>(RADIUS) * width + x;
#pragma unroll 1
    for (int base = first; base < last; base += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int y = base + k;
            if (y >= last)
                break;
            const Pairs more = widen<RIM>(come[k], rim), less = widen<RIM>(go[k], rim);
            if (!RIM && y + AHEAD < last) {
                come[k] = __ldg(reinterpret_cast<const uint2 *>(coming));
                go[k] = __ldg(reinterpret_cast<const uint2 *>(going));
                coming += width;
                going += width;
            }
            if (RIM && y + AHEAD < last) {
                come[k] = load_eight<RIM>(image, x, y + AHEAD + RADIUS, height, width);
                go[k] = load_eight<RIM>(image, x, y + AHEAD - RADIUS, height, width);
            }
#pragma unroll
            for (int i = 0; i < PIXELS / 2; i++)
                column.p[i] += more.p[i];
            const uint2 result = means<RADIUS>(along<RADIUS>(column));
            if (writes)
                __stcs(reinterpret_cast<uint2 *>(to), result);
            to += width;
#pragma unroll
            for (int i = 0; i < PIXELS / 2; i++)
                column.p[i] -= less.p[i];
        }
    }
}

// Any width and radius.
__device__ void plain(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width,
                      int radius, int x, int first)
{
    const unsigned area = (2 * radius + 1) * (2 * radius + 1);
    for (int y = first; y < min(first + ROWS, height); y++) {
        unsigned sum = 0;
#pragma unroll 1
        for (int dy = -radius; dy <= radius; dy++) {
            const unsigned char *row = image + static_cast<size_t>(min(max(y + dy, 0), height - 1)) * width;
#pragma unroll 5
            for (int dx = -radius; dx <= radius; dx++)
                sum += row[min(max(x + dx, 0), width - 1)];
        }
        out[static_cast<size_t>(y) * width + x] = (sum + area / 2) / area;
    }
}

template <int RADIUS>
__global__ void __launch_bounds__(32 * WARPS, 16)
    box(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width)
{
    const int lane = threadIdx.x % 32, strip = (blockIdx.x * WARPS + threadIdx.x / 32) * STRIP;
    const int first = blockIdx.y * ROWS, col = strip + (lane - 1) * PIXELS;
    if (strip >= width)
        return;
    if constexpr (RADIUS < PIXELS) {
        if (width % PIXELS == 0) {
            const bool inside = strip > 0 && strip + STRIP + PIXELS <= width;
            if (inside && first >= RADIUS && first + ROWS + RADIUS <= height)
                march<RADIUS, false>(image, out, height, width, col, first);
            else
                march<RADIUS, true>(image, out, height, width, col, first);
            return;
        }
    }
    for (int x = strip + lane; x < min(strip + STRIP, width); x += 32)
        plain(image, out, height, width, RADIUS, x, first);
}
