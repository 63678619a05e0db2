// Two pixels have the same weight for each other, so a pair takes one exponential for both. A warp marches down, COLS
// columns a lane, the rows that meet the present one in registers; each pixel is paired with those right of it and
// below, and the weight goes to the other's lane by a shuffle. Lanes at the sides only help. Pixels are scaled so that
// the exponent is a table's entry less a square; both weights are powers of two, so their exponents add.
#define COLS 4
#define WARPS 4
#define ROWS 205
#define FULL 0xffffffffu

__device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float4 load_four(const float *__restrict__ image, int x, int y, int height, int width)
{
    const float *row = image + static_cast<size_t>(min(max(y, 0), height - 1)) * width;
    if (width % 4 == 0 && x >= 0 && x < width)
        return __ldg(reinterpret_cast<const float4 *>(row + x));
    return make_float4(__ldg(row + min(max(x, 0), width - 1)), __ldg(row + min(max(x + 1, 0), width - 1)),
                       __ldg(row + min(max(x + 2, 0), width - 1)), __ldg(row + min(max(x + 3, 0), width - 1)));
}

// The lane that is `by` to the right (left where negative) gives its value.
__device__ __forceinline__ float beside(float v, int by)
{
    return by == 0 ? v : by > 0 ? __shfl_down_sync(FULL, v, by) : __shfl_up_sync(FULL, v, -by);
}

// Column c of those that begin at a lane's first belongs to the lane so many to the right.
__device__ __forceinline__ constexpr int lanes_to(int c)
{
    return (c + 8 * COLS) / COLS - 8;
}

// A row of a lane and of RADIUS columns to each side.
template <int RADIUS> __device__ __forceinline__ void spread(float4 four, float scale, float (&row)[COLS + 2 * RADIUS])
{
    const float own[COLS] = {four.x * scale, four.y * scale, four.z * scale, four.w * scale};
#pragma unroll
    for (int c = -RADIUS; c < COLS + RADIUS; c++)
        row[c + RADIUS] = beside(own[(c + 8 * COLS) % COLS], lanes_to(c));
}

template <int RADIUS>
__global__ void __launch_bounds__(32 * WARPS, 3)
    bilateral(const float *__restrict__ image, float *__restrict__ out, int height, int width, float sigma_space,
              float sigma_range)
{
    constexpr int HELPERS = (RADIUS + COLS - 1) / COLS, STRIP = (32 - 2 * HELPERS) * COLS;
    const int lane = threadIdx.x % 32, strip = (blockIdx.x * WARPS + threadIdx.x / 32) * STRIP;
    if (strip >= width)
        return;
    const int x = strip + (lane - HELPERS) * COLS, first = blockIdx.y * ROWS, last = min(first + ROWS, height);
    const bool writes = lane >= HELPERS && lane < 32 - HELPERS && x < width;
    const float log2e = 1.44269504f, scale = sqrtf(0.5f * log2e) / sigma_range;
    float space[2 * RADIUS * RADIUS + 1];
#pragma unroll
    for (int r = 0; r <= 2 * RADIUS * RADIUS; r++)
        space[r] = -log2e * r / (2.0f * sigma_space * sigma_space);
    // Rows y to y + RADIUS, and what they have got so far.
    float rows[RADIUS + 1][COLS + 2 * RADIUS], sum[RADIUS + 1][COLS] = {}, norm[RADIUS + 1][COLS] = {};
#pragma unroll
    for (int k = 1; k <= RADIUS; k++)
        spread<RADIUS>(load_four(image, x, first - RADIUS - 1 + k, height, width), scale, rows[k]);
    float4 ahead = load_four(image, x, first, height, width);
#pragma unroll 1
    for (int y = first - RADIUS; y < last; y++) {
#pragma unroll
        for (int k = 0; k < RADIUS; k++)
#pragma unroll
            for (int c = 0; c < COLS + 2 * RADIUS; c++)
                rows[k][c] = rows[k + 1][c];
        spread<RADIUS>(ahead, scale, rows[RADIUS]);
        ahead = load_four(image, x, y + RADIUS + 1, height, width);
#pragma unroll
        for (int dy = 0; dy <= RADIUS; dy++)
#pragma unroll
            for (int dx = -RADIUS; dx <= RADIUS; dx++) {
                if (dy == 0 && dx <= 0)
                    continue;
                float weight[COLS];
#pragma unroll
                for (int c = 0; c < COLS; c++) {
                    const float other = rows[dy][c + dx + RADIUS], diff = other - rows[0][c + RADIUS];
                    weight[c] = power_of_two(fmaf(-diff, diff, space[dx * dx + dy * dy]));
                    sum[0][c] = fmaf(weight[c], other, sum[0][c]);
                    norm[0][c] += weight[c];
                }
                // Pixel c of row y + dy is the other one for that of column c - dx.
#pragma unroll
                for (int c = 0; c < COLS; c++) {
                    const float same = beside(weight[(c - dx + 8 * COLS) % COLS], lanes_to(c - dx));
                    sum[dy][c] = fmaf(same, rows[0][c - dx + RADIUS], sum[dy][c]);
                    norm[dy][c] += same;
                }
            }
        if (y >= first && writes) {
            float result[COLS];
#pragma unroll
            for (int c = 0; c < COLS; c++)
                result[c] = __fdividef(sum[0][c] + rows[0][c + RADIUS], (norm[0][c] + 1.0f) * scale);
            float *to = out + static_cast<size_t>(y) * width + x;
            if (width % 4 == 0) {
                *reinterpret_cast<float4 *>(to) = make_float4(result[0], result[1], result[2], result[3]);
            } else {
#pragma unroll
                for (int c = 0; c < COLS; c++)
                    if (x + c < width)
                        to[c] = result[c];
            }
        }
#pragma unroll
        for (int c = 0; c < COLS; c++) {
#pragma unroll
            for (int k = 0; k < RADIUS; k++) {
                sum[k][c] = sum[k + 1][c];
                norm[k][c] = norm[k + 1][c];
            }
            sum[RADIUS][c] = norm[RADIUS][c] = 0.0f;
        }
    }
}
