// A warp marches down 240 columns, eight to a lane, two to a register; its first and last lane only help. Rows come in chunks
// of RADIUS + 1: the window of a row is the end of one chunk, all of the next and the start of the one after, and so is
// that of a column in lanes of eight where RADIUS is 7. Nothing is staged in shared memory.
#define WARPS 2
#define ROWS 40
#define PIXELS 8
#define STRIP (30 * PIXELS)
#define ALL 0xffffffffu
#define FAR 0x00ff00ffu

// Two columns each: columns 2k and 2k + 1.
struct Pairs {
    unsigned p[PIXELS / 2];
};

__device__ __forceinline__ Pairs least(const Pairs &a, const Pairs &b)
{
    Pairs result;
#pragma unroll
    for (int k = 0; k < PIXELS / 2; k++)
        result.p[k] = __vminu2(a.p[k], b.p[k]);
    return result;
}

__device__ __forceinline__ Pairs widen(uint2 eight)
{
    return {__byte_perm(eight.x, 0, 0x4140), __byte_perm(eight.x, 0, 0x4342), __byte_perm(eight.y, 0, 0x4140),
            __byte_perm(eight.y, 0, 0x4342)};
}

// 255 outside the image. WIDE: rows are a multiple of eight pixels.
template <bool WIDE> __device__ __forceinline__ uint2 load_eight(const unsigned char *from, bool inside, int left)
{
    if (WIDE)
        return inside ? __ldg(reinterpret_cast<const uint2 *>(from)) : make_uint2(0xffffffffu, 0xffffffffu);
    unsigned words[2] = {0xffffffffu, 0xffffffffu};
#pragma unroll
    for (int s = 0; s < PIXELS; s++)
        if (inside && s < left)
            words[s / 4] ^= (255u ^ from[s]) << 8 * (s % 4);
    return make_uint2(words[0], words[1]);
}

// Pair k of a line that starts `by` columns later.
template <int WORDS> __device__ __forceinline__ unsigned later(const unsigned (&line)[WORDS], int k, int by)
{
    const int word = k + by / 2;
    const unsigned low = word < WORDS ? line[word < WORDS ? word : 0] : FAR;
    const unsigned high = word + 1 < WORDS ? line[word + 1 < WORDS ? word + 1 : 0] : FAR;
    return by % 2 ? __byte_perm(low, high, 0x5432) : low;
}

template <int RADIUS> __device__ __forceinline__ Pairs along(const Pairs &own)
{
    constexpr int HALF = PIXELS / 2, WINDOW = 2 * RADIUS + 1;
    Pairs result;
    if constexpr (RADIUS == PIXELS - 1) {
        // Minima of the columns before (and behind) each column of the lane; those of pairs stand in both halves.
        unsigned whole[HALF], before[HALF], behind[HALF], all = FAR, rest = FAR;
#pragma unroll
        for (int k = 0; k < HALF; k++) {
            whole[k] = __vminu2(own.p[k], __byte_perm(own.p[k], 0, 0x1032));
            before[k] = __vminu2(all, __byte_perm(own.p[k], FAR, 0x1054));
            all = __vminu2(all, whole[k]);
        }
#pragma unroll
        for (int k = HALF - 1; k >= 0; k--) {
            behind[k] = __vminu2(rest, __byte_perm(own.p[k], FAR, 0x5432));
            rest = __vminu2(rest, whole[k]);
        }
#pragma unroll
        for (int k = 0; k < HALF; k++)
            result.p[k] = __vimin3_u16x2(__shfl_up_sync(ALL, behind[k], 1), all, __shfl_down_sync(ALL, before[k], 1));
    } else {
        static_assert(RADIUS < PIXELS, "a neighbouring lane has the whole reach");
        unsigned line[3 * HALF];
#pragma unroll
        for (int k = 0; k < HALF; k++) {
            line[k] = __shfl_up_sync(ALL, own.p[k], 1);
            line[HALF + k] = own.p[k];
            line[2 * HALF + k] = __shfl_down_sync(ALL, own.p[k], 1);
        }
#pragma unroll
        for (int length = 1; length < WINDOW;) {
            const int step = length < WINDOW - length ? length : WINDOW - length;
#pragma unroll
            for (int k = 0; k < 3 * HALF; k++)
                line[k] = __vminu2(line[k], later(line, k, step));
            length += step;
        }
#pragma unroll
        for (int k = 0; k < HALF; k++)
            result.p[k] = later(line, k, PIXELS - RADIUS);
    }
    return result;
}

template <int RADIUS, bool WIDE>
__device__ __forceinline__ void march(const unsigned char *__restrict__ image, unsigned char *__restrict__ eroded,
                                      int height, int width, int x, int first)
{
    constexpr int CHUNK = RADIUS + 1;
    const int lane = threadIdx.x % 32, last = min(first + ROWS, height), left = width - x;
    const bool exists = x >= 0 && x < width, writes = lane > 0 && lane < 31 && exists;
    const unsigned char *from = image + static_cast<long long>(first - CHUNK) * width + x;
    Pairs earlier[CHUNK], own[CHUNK];
    uint2 next[CHUNK];
#pragma unroll
    for (int i = 0; i < CHUNK; i++, from += width)
        earlier[i] = widen(load_eight<WIDE>(from, exists && first - CHUNK + i >= 0, left));
#pragma unroll
    for (int i = 0; i < CHUNK; i++, from += width)
        own[i] = widen(load_eight<WIDE>(from, exists && first + i < height, left));
#pragma unroll
    for (int i = 0; i < CHUNK; i++, from += width)
        next[i] = load_eight<WIDE>(from, exists && first + CHUNK + i < height, left);
    // Of a chunk, row i becomes the minimum of rows i and later.
#pragma unroll
    for (int i = CHUNK - 2; i > 0; i--)
        earlier[i] = least(earlier[i], earlier[i + 1]);
    unsigned char *to = eroded + static_cast<size_t>(first) * width + x;
#pragma unroll 1
    for (int base = first; base < last; base += CHUNK) {
#pragma unroll
        for (int i = CHUNK - 2; i >= 0; i--)
            own[i] = least(own[i], own[i + 1]);
        Pairs start = {FAR, FAR, FAR, FAR};
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            Pairs down = least(own[0], start);
            if (i + 1 < CHUNK)
                down = least(down, earlier[i + 1 < CHUNK ? i + 1 : 0]);
            const Pairs result = along<RADIUS>(down);
            if (writes && base + i < last) {
                const uint2 packed = make_uint2(__byte_perm(result.p[0], result.p[1], 0x6420),
                                                __byte_perm(result.p[2], result.p[3], 0x6420));
                if (WIDE) {
                    *reinterpret_cast<uint2 *>(to) = packed;
                } else {
#pragma unroll
                    for (int s = 0; s < PIXELS; s++)
                        if (s < left)
                            to[s] = (s < 4 ? packed.x : packed.y) >> 8 * (s % 4);
                }
            }
            to += width;
            earlier[i] = widen(next[i]);
            start = least(start, earlier[i]);
            next[i] = load_eight<WIDE>(from, exists && base + CHUNK < last && base + 2 * CHUNK + i < height, left);
            from += width;
        }
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            const Pairs swap = own[i];
            own[i] = earlier[i];
            earlier[i] = swap;
        }
    }
}

template <int RADIUS>
__global__ void __launch_bounds__(32 * WARPS, 8)
    erode(const unsigned char *__restrict__ image, unsigned char *__restrict__ eroded, int height, int width)
{
    const int strip = (blockIdx.x * WARPS + threadIdx.x / 32) * STRIP;
    const int first = blockIdx.y * ROWS, x = strip + (static_cast<int>(threadIdx.x) % 32 - 1) * PIXELS;
    if (strip >= width)
        return;
    if (width % PIXELS == 0)
        march<RADIUS, true>(image, eroded, height, width, x, first);
    else
        march<RADIUS, false>(image, eroded, height, width, x, first);
}
