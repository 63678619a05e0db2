#define WARPS 4
#define AHEAD 4
#define ROWS 20
#define OUTER 3
#define OWN (8 * (32 - 2 * OUTER))
#define ALL 0xffffffffu

// All three levels in one sweep. A warp walks along 256 columns, eight to a lane, with AHEAD rows on their way, and
// makes four columns of the half of them, two of the quarter and one of the eighth. Its outer lanes lack neighbours,
// more at each level: what the OUTER lanes at either side make is not written, and neighbouring warps overlap by as
// much. A band is ROWS rows of the eighth. Every second band is walked from its foot up, so that two bands are at the
// rows that both need at the same time, and these come from memory once. Rows then have numbers from below: image row
// height - i is number i, and so at each level, which leaves even rows even. Numbers go from 0 to rows - 1 downwards,
// from 1 to rows upwards.

__device__ __forceinline__ float blend(float a, float b, float c, float d, float e)
{
    return 0.0625f * (a + e) + 0.25f * (b + d) + 0.375f * c;
}

// Half as many columns of a row, filtered along it.
template <int N>
__device__ __forceinline__ void along(const float (&in)[N], float (&out)[N / 2], bool at_left, bool at_right)
{
    const float second = __shfl_up_sync(ALL, in[N - 2], 1), first = __shfl_up_sync(ALL, in[N - 1], 1);
    const float after = __shfl_down_sync(ALL, in[0], 1);
    float row[N + 3];
    row[0] = at_left ? in[0] : second;
    row[1] = at_left ? in[0] : first;
    row[N + 2] = at_right ? in[N - 1] : after;
#pragma unroll
    for (int k = 0; k < N; k++)
        row[k + 2] = in[k];
#pragma unroll
    for (int k = 0; k < N / 2; k++)
        out[k] = blend(row[2 * k], row[2 * k + 1], row[2 * k + 2], row[2 * k + 3], row[2 * k + 4]);
}

// Two rows of a level are in the making at any time: what a filtered row gives to each is added at once.
template <int N> struct Making {
    float sum[N], later[N];
};

// Takes an odd row. `starts`: it is the level's first, and stands for the one before it as well.
template <int N> __device__ __forceinline__ void take_odd(Making<N> &making, const float (&row)[N], bool starts)
{
#pragma unroll
    for (int k = 0; k < N; k++) {
        making.sum[k] += 0.25f * row[k];
        making.later[k] = starts ? 0.3125f * row[k] : making.later[k] + 0.25f * row[k];
    }
}

// Takes an even row, with which one is complete. `starts`: it is the level's first, and stands for the two before it.
template <int N>
__device__ __forceinline__ void take_even(Making<N> &making, const float (&row)[N], bool starts, float (&complete)[N])
{
#pragma unroll
    for (int k = 0; k < N; k++) {
        complete[k] = making.sum[k] + 0.0625f * row[k];
        making.sum[k] = starts ? 0.6875f * row[k] : making.later[k] + 0.375f * row[k];
        making.later[k] = 0.0625f * row[k];
    }
}

// Rows behind the last are like it.
template <int N> __device__ __forceinline__ void hold(float (&row)[N], float (&held)[N], bool behind)
{
#pragma unroll
    for (int k = 0; k < N; k++)
        held[k] = row[k] = behind ? held[k] : row[k];
}

struct Raw {
    float4 left, right;
};

__device__ __forceinline__ Raw load_raw(const float *from)
{
    return {__ldg(reinterpret_cast<const float4 *>(from)), __ldg(reinterpret_cast<const float4 *>(from) + 1)};
}

__device__ __forceinline__ size_t row_at(int row, int width)
{
    return static_cast<size_t>(row) * width;
}

// Rows `first` to `last` of the eighth, with numbers from below if `UP`.
template <bool UP>
__device__ __forceinline__ void walk(const float *__restrict__ image, float *__restrict__ half,
                                     float *__restrict__ quarter, float *__restrict__ eighth, int height, int width,
                                     int first, int last)
{
    const int lane = threadIdx.x % 32, col = (blockIdx.x * WARPS + threadIdx.x / 32) * OWN + 8 * (lane - OUTER);
    const bool at_left = col == 0, at_right = col + 8 == width;
    const bool own = lane >= OUTER && lane < 32 - OUTER && col < width;
    const int lowest = UP, begin = 8 * first - 14, end = 8 * last + 6;
    int next = begin;
    const int number = min(max(begin, lowest), height - 1 + lowest);
    const int x = min(max(col, 0), width - 8);
    const float *from = image + static_cast<size_t>(UP ? height - number : number) * width + x;
    Raw ahead[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++, next++) {
        ahead[k] = load_raw(from);
        from += next >= lowest && next + 1 < height + lowest ? (UP ? -width : width) : 0;
    }
    Making<4> halves = {};
    Making<2> quarters = {};
    Making<1> eighths = {};
    float held_half[4] = {}, held_quarter[2] = {};
#pragma unroll 1
    for (int base = begin; base <= end; base += 8) {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const int i = base + k;
            if (i > end)
                break;
            const Raw &raw = ahead[k % AHEAD];
            const float pixels[8] = {raw.left.x,  raw.left.y,  raw.left.z,  raw.left.w,
                                     raw.right.x, raw.right.y, raw.right.z, raw.right.w};
            float row[4];
            along(pixels, row, at_left, at_right);
            if (i + AHEAD <= end) {
                ahead[k % AHEAD] = load_raw(from);
                from += next >= lowest && next + 1 < height + lowest ? (UP ? -width : width) : 0;
                next++;
            }
            if (k % 2) {
                take_odd(halves, row, false);
                continue;
            }
            float made[4];
            take_even(halves, row, false, made);
            const int j = i / 2 - 1, rows2 = height / 2;
            hold(made, held_half, j >= rows2 + lowest);
            if (own && j >= 4 * first - 3 * UP && j < 4 * last - 3 * UP)
                __stcs(reinterpret_cast<float4 *>(half + row_at(UP ? rows2 - j : j, width / 2) + col / 2),
                       make_float4(made[0], made[1], made[2], made[3]));
            float row2[2];
            along(made, row2, at_left, at_right);
            if (k % 4) {
                take_odd(quarters, row2, UP && j == 1);
                continue;
            }
            float made2[2];
            take_even(quarters, row2, !UP && j == 0, made2);
            const int q = j / 2 - 1, rows4 = height / 4;
            hold(made2, held_quarter, q >= rows4 + lowest);
            if (own && q >= 2 * first - UP && q < 2 * last - UP)
                __stcs(reinterpret_cast<float2 *>(quarter + row_at(UP ? rows4 - q : q, width / 4) + col / 4),
                       make_float2(made2[0], made2[1]));
            float row4[1];
            along(made2, row4, at_left, at_right);
            if (k == 0) {
                take_odd(eighths, row4, UP && q == 1);
                continue;
            }
            float made4[1];
            take_even(eighths, row4, !UP && q == 0, made4);
            const int e = q / 2 - 1;
            if (own && e >= first && e < last)
                __stcs(eighth + row_at(UP ? height / 8 - e : e, width / 8) + col / 8, made4[0]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
    pyramid(const float *__restrict__ image, float *__restrict__ half, float *__restrict__ quarter,
            float *__restrict__ eighth, int height, int width)
{
    const int rows = height / 8, first = blockIdx.y * ROWS, last = min(first + ROWS, rows);
    if ((blockIdx.x * WARPS + threadIdx.x / 32) * OWN >= width)
        return;
    if (blockIdx.y % 2)
        walk<true>(image, half, quarter, eighth, height, width, rows - last + 1, rows - first + 1);
    else
        walk<false>(image, half, quarter, eighth, height, width, first, last);
}
