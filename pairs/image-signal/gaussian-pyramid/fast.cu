#define COLS 64
#define ROWS 32

__device__ __forceinline__ float blend(float a, float b, float c, float d, float e)
{
    return 0.0625f * (a + e) + 0.25f * (b + d) + 0.375f * c;
}

// Two input columns an output column, read as pairs; a thread walks down, with five filtered rows in registers.
extern "C" __global__ void __launch_bounds__(COLS)
    halve(const float *__restrict__ image, float *__restrict__ smaller, int height, int width)
{
    const int out_width = width / 2, out_height = height / 2;
    const int x = blockIdx.x * COLS + threadIdx.x, y = blockIdx.y * ROWS;
    const int lane = threadIdx.x % 32, own = min(x, out_width - 1);
    const int last = min(y + ROWS, out_height);
    const bool first_lane = lane == 0, last_lane = lane == 31 || x + 1 >= out_width;
    float row[5];
#pragma unroll 4
    for (int i = 2 * y - 2; i <= 2 * last; i++) {
        const float2 *line =
            reinterpret_cast<const float2 *>(image + static_cast<size_t>(min(max(i, 0), height - 1)) * width);
        const float2 pair = __ldg(line + own);
        float2 before;
        before.x = __shfl_up_sync(0xffffffffu, pair.x, 1);
        before.y = __shfl_up_sync(0xffffffffu, pair.y, 1);
        float after = __shfl_down_sync(0xffffffffu, pair.x, 1);
        if (first_lane) {
            before = __ldg(line + max(own - 1, 0));
            if (own == 0)
                before.y = before.x;
        }
        if (last_lane)
            after = own + 1 < out_width ? __ldg(line + own + 1).x : pair.y;
#pragma unroll
        for (int k = 0; k < 4; k++)
            row[k] = row[k + 1];
        row[4] = blend(before.x, before.y, pair.x, pair.y, after);
        if (i % 2 == 0 && i >= 2 * y + 2 && x < out_width)
            smaller[static_cast<size_t>((i - 2) / 2) * out_width + x] = blend(row[0], row[1], row[2], row[3], row[4]);
    }
}
