#define WARPS 4
#define AHEAD 4
#define ALL 0xffffffffu

__device__ __forceinline__ float blend(float a, float b, float c, float d, float e)
{
    return 0.0625f * (a + e) + 0.25f * (b + d) + 0.375f * c;
}

// Four columns of a row, and two left of the warp (in its first half) or right of it.
struct Raw {
    float4 own;
    float2 beside;
};

__device__ __forceinline__ Raw load_raw(const float *own, const float *beside)
{
    return {__ldcs(reinterpret_cast<const float4 *>(own)), __ldg(reinterpret_cast<const float2 *>(beside))};
}

// Two filtered columns of a row.
__device__ __forceinline__ float2 along(const Raw &raw, bool at_left, bool at_right)
{
    const int lane = threadIdx.x % 32;
    float2 before;
    before.x = __shfl_up_sync(ALL, raw.own.z, 1);
    before.y = __shfl_up_sync(ALL, raw.own.w, 1);
    float after = __shfl_down_sync(ALL, raw.own.x, 1);
    before = lane == 0 ? raw.beside : before;
    after = lane == 31 ? raw.beside.x : after;
    before = at_left ? make_float2(raw.own.x, raw.own.x) : before;
    after = at_right ? raw.own.w : after;
    return make_float2(blend(before.x, before.y, raw.own.x, raw.own.y, raw.own.z),
                       blend(raw.own.x, raw.own.y, raw.own.z, raw.own.w, after));
}

// A warp walks down 128 columns, four to a lane, four rows on their way. Of the output only two rows are in the making:
// what a filtered row gives to each is added at once.
__device__ void march(const float *__restrict__ image, float *__restrict__ smaller, int height, int width, int start,
                      int first, int last)
{
    const int lane = threadIdx.x % 32, col = start + 4 * lane, x = min(col, width - 4), out_width = width / 2;
    const bool at_left = x == 0, at_right = x + 4 >= width;
    const float *own = image + static_cast<size_t>(max(2 * first - 2, 0)) * width + x;
    const float *beside = own + (lane < 16 ? max(start - 2, 0) : min(start + 128, width - 2)) - x;
    const int end = 2 * last + 1;
    Raw ahead[AHEAD];
    int next = 2 * first - 2;
#pragma unroll
    for (int k = 0; k < AHEAD; k++, next++) {
        ahead[k] = load_raw(own, beside);
        const int step = next >= 0 && next + 1 < height ? width : 0;
        own += step;
        beside += step;
    }
    float2 sum = make_float2(0.0f, 0.0f), later = sum;
    float *to = smaller + static_cast<size_t>(first) * out_width + x / 2;
#pragma unroll 1
    for (int base = 2 * first - 2; base < end; base += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int i = base + k;
            if (i >= end)
                break;
            const float2 row = along(ahead[k], at_left, at_right);
            if (i + AHEAD < end) {
                ahead[k] = load_raw(own, beside);
                const int step = next >= 0 && next + 1 < height ? width : 0;
                own += step;
                beside += step;
                next++;
            }
            if (k % 2) {
                sum.x += 0.25f * row.x, sum.y += 0.25f * row.y;
                later.x += 0.25f * row.x, later.y += 0.25f * row.y;
            } else {
                sum.x += 0.0625f * row.x, sum.y += 0.0625f * row.y;
                if (i >= 2 * first + 2) {
                    if (col < width)
                        *reinterpret_cast<float2 *>(to) = sum;
                    to += out_width;
                }
                sum = make_float2(later.x + 0.375f * row.x, later.y + 0.375f * row.y);
                later = make_float2(0.0625f * row.x, 0.0625f * row.y);
            }
        }
    }
}

__device__ float plain(const float *__restrict__ image, int height, int width, int x, int y)
{
    float row[5];
#pragma unroll
    for (int i = 0; i < 5; i++) {
        const float *line = image + static_cast<size_t>(min(max(2 * y - 2 + i, 0), height - 1)) * width;
        row[i] = blend(line[max(2 * x - 2, 0)], line[max(2 * x - 1, 0)], line[2 * x], line[min(2 * x + 1, width - 1)],
                       line[min(2 * x + 2, width - 1)]);
    }
    return blend(row[0], row[1], row[2], row[3], row[4]);
}

// The grid says how many rows a block has.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    halve(const float *__restrict__ image, float *__restrict__ smaller, int height, int width)
{
    const int out_width = width / 2, out_height = height / 2, rows = (out_height + gridDim.y - 1) / gridDim.y;
    const int start = (blockIdx.x * WARPS + threadIdx.x / 32) * 128;
    const int first = blockIdx.y * rows, last = min(first + rows, out_height);
    if (start >= width || first >= last)
        return;
    if (width % 4 == 0) {
        march(image, smaller, height, width, start, first, last);
        return;
    }
    for (int y = first; y < last; y++)
        for (int x = start / 2 + threadIdx.x % 32; x < min(start / 2 + 64, out_width); x += 32)
            smaller[static_cast<size_t>(y) * out_width + x] = plain(image, height, width, x, y);
}
