#define WIDTH 4
#define DOWN 2
#define THREADS 128
#define TAPS (WIDTH * WIDTH * 9)

// What a thread makes: four pixels from x on, of two rows from y on.
struct Place {
    int x, y, h, w;
    bool left, right;
};

// Four pixels of row y + r and their neighbours; zeros outside the image. INNER: the row lies in the image. WIDE: a row is
// a multiple of four pixels.
template <bool WIDE, bool INNER>
__device__ __forceinline__ void load_row(const float *__restrict__ own, int r, const Place &place, float (&to)[6])
{
    const bool inside = INNER || (place.y + r >= 0 && place.y + r < place.h);
    const float *from = own + r * place.w;
#pragma unroll
    for (int j = 0; j < 6; j++)
        to[j] = 0.0f;
    if (!inside)
        return;
    if (WIDE) {
        const float4 quad = *reinterpret_cast<const float4 *>(from);
        to[1] = quad.x;
        to[2] = quad.y;
        to[3] = quad.z;
        to[4] = quad.w;
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (place.x + j < place.w)
                to[1 + j] = from[j];
    }
    if (place.left)
        to[0] = from[-1];
    if (place.right)
        to[5] = from[4];
}

template <bool WIDE, bool INNER>
__device__ __forceinline__ void convolve(const float *__restrict__ from, float *__restrict__ to, size_t plane,
                                         const float4 *taps, const Place &place)
{
    float sum[DOWN][WIDTH][4] = {};
#pragma unroll
    for (int c = 0; c < WIDTH; c++) {
        float value[DOWN + 2][6];
#pragma unroll
        for (int r = 0; r < DOWN + 2; r++)
            load_row<WIDE, INNER>(from + c * plane, r - 1, place, value[r]);
#pragma unroll
        for (int dy = 0; dy < 3; dy++)
#pragma unroll
            for (int dx = 0; dx < 3; dx++) {
                const float4 tap = taps[c * 9 + dy * 3 + dx];
#pragma unroll
                for (int r = 0; r < DOWN; r++)
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        sum[r][0][j] = fmaf(tap.x, value[r + dy][dx + j], sum[r][0][j]);
                        sum[r][1][j] = fmaf(tap.y, value[r + dy][dx + j], sum[r][1][j]);
                        sum[r][2][j] = fmaf(tap.z, value[r + dy][dx + j], sum[r][2][j]);
                        sum[r][3][j] = fmaf(tap.w, value[r + dy][dx + j], sum[r][3][j]);
                    }
            }
    }
#pragma unroll
    for (int r = 0; r < DOWN; r++) {
        if (!INNER && place.y + r >= place.h)
            break;
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            float *at = to + k * plane + r * place.w;
            if (WIDE) {
                __stcs(reinterpret_cast<float4 *>(at),
                       make_float4(sum[r][k][0], sum[r][k][1], sum[r][k][2], sum[r][k][3]));
                continue;
            }
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (place.x + j < place.w)
                    at[j] = sum[r][k][j];
        }
    }
}

// A block's threads have one group, over all images; a thread makes four pixels of two rows of its four channels. Four rows
// read serve the six that the two need, and a weight read serves eight products. Warps inside an image ask no row's bounds.
extern "C" __global__ void __launch_bounds__(THREADS)
    grouped_conv(const float *__restrict__ in, const float *__restrict__ weights, float *__restrict__ out, int groups,
                 int h, int w, int n)
{
    __shared__ float4 taps[WIDTH * 9];
    const int group = blockIdx.y, quads = (w + 3) / 4, bands = (h + DOWN - 1) / DOWN;
    const float *own = weights + group * TAPS;
    for (int i = threadIdx.x; i < TAPS; i += THREADS)
        reinterpret_cast<float *>(taps)[i % (WIDTH * 9) * WIDTH + i / (WIDTH * 9)] = own[i];
    __syncthreads();
    const int item = blockIdx.x * THREADS + threadIdx.x, line = item / quads, image = line / bands;
    Place place;
    place.x = (item - line * quads) * 4, place.y = (line - image * bands) * DOWN;
    place.h = h, place.w = w;
    place.left = place.x > 0, place.right = place.x + 4 < w;
    const bool exists = image < n;
    const bool inner = __all_sync(0xffffffffu, exists && place.y > 0 && place.y + DOWN < h);
    if (!exists)
        return;
    const size_t plane = static_cast<size_t>(h) * w;
    const size_t at = (static_cast<size_t>(image) * groups + group) * WIDTH * plane + static_cast<size_t>(place.y) * w +
                      place.x;
    if (w % 4 == 0 && inner)
        convolve<true, true>(in + at, out + at, plane, taps, place);
    else if (w % 4 == 0)
        convolve<true, false>(in + at, out + at, plane, taps, place);
    else
        convolve<false, false>(in + at, out + at, plane, taps, place);
}
