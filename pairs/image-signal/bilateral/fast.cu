// Two pixels have the same weight for each other, so a pair takes one exponential for both. A warp marches down, COLS
// columns a lane, the rows that meet the present one in a ring in shared memory; each pixel is paired with those right
// of it and below, and the weight goes to the other's lane by a shuffle. Lanes at the sides only help. Pixels are
// scaled so that the exponent is a table's entry less a square; both weights are powers of two, so their exponents add.
#define COLS 4
#define WARPS 4
#define ROWS 205
#define RING 8
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

// A row of a lane and of the lanes at its sides that are RADIUS columns away.
template <int RADIUS, int HELPERS>
__device__ __forceinline__ void spread(const float *own, float (&row)[COLS + 2 * RADIUS])
{
    float all[(2 * HELPERS + 1) * COLS];
#pragma unroll
    for (int k = 0; k <= 2 * HELPERS; k++) {
        const float4 four = *reinterpret_cast<const float4 *>(own + (k - HELPERS) * COLS);
        all[COLS * k] = four.x;
        all[COLS * k + 1] = four.y;
        all[COLS * k + 2] = four.z;
        all[COLS * k + 3] = four.w;
    }
#pragma unroll
    for (int c = 0; c < COLS + 2 * RADIUS; c++)
        row[c] = all[HELPERS * COLS - RADIUS + c];
}

__device__ __forceinline__ void keep(float *own, float4 four, float scale)
{
    *reinterpret_cast<float4 *>(own) = make_float4(four.x * scale, four.y * scale, four.z * scale, four.w * scale);
}

template <int RADIUS>
__global__ void __launch_bounds__(32 * WARPS, 3)
    bilateral(const float *__restrict__ image, float *__restrict__ out, int height, int width, float sigma_space,
              float sigma_range)
{
    constexpr int HELPERS = (RADIUS + COLS - 1) / COLS, STRIP = (32 - 2 * HELPERS) * COLS;
    constexpr int PITCH = (32 + 2 * HELPERS) * COLS;
    static_assert(RADIUS < RING, "the rows that meet have a place each");
    __shared__ __align__(16) float rings[WARPS][RING * PITCH];
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
    float *ring = rings[threadIdx.x / 32] + (HELPERS + lane) * COLS;
    // What is beside the outer lanes belongs to no pixel that is written.
    const int outer = lane < HELPERS ? -HELPERS * COLS : HELPERS * COLS;
#pragma unroll
    for (int k = 0; k < RING; k++)
        if (lane < HELPERS || lane >= 32 - HELPERS)
            keep(ring + k * PITCH + outer, make_float4(0.0f, 0.0f, 0.0f, 0.0f), 0.0f);
    // What rows y to y + RADIUS have got so far.
    float sum[RADIUS + 1][COLS] = {}, norm[RADIUS + 1][COLS] = {};
#pragma unroll
    for (int k = 0; k < RADIUS; k++)
        keep(ring + ((first - RADIUS + k) & (RING - 1)) * PITCH, load_four(image, x, first - RADIUS + k, height, width),
             scale);
    float4 ahead = load_four(image, x, first, height, width);
#pragma unroll 1
    for (int y = first - RADIUS; y < last; y++) {
        keep(ring + ((y + RADIUS) & (RING - 1)) * PITCH, ahead, scale);
        ahead = load_four(image, x, y + RADIUS + 1, height, width);
        __syncwarp();
        float mine[COLS + 2 * RADIUS];
        spread<RADIUS, HELPERS>(ring + (y & (RING - 1)) * PITCH, mine);
#pragma unroll
        for (int dy = 0; dy <= RADIUS; dy++) {
            float row[COLS + 2 * RADIUS];
            spread<RADIUS, HELPERS>(ring + ((y + dy) & (RING - 1)) * PITCH, row);
#pragma unroll
            for (int dx = -RADIUS; dx <= RADIUS; dx++) {
                if (dy == 0 && dx <= 0)
                    continue;
                float weight[COLS];
#pragma unroll
                for (int c = 0; c < COLS; c++) {
                    const float other = row[c + dx + RADIUS], diff = other - mine[c + RADIUS];
                    weight[c] = power_of_two(fmaf(-diff, diff, space[dx * dx + dy * dy]));
                    sum[0][c] = fmaf(weight[c], other, sum[0][c]);
                    norm[0][c] += weight[c];
                }
                // Pixel c of row y + dy is the other one for that of column c - dx.
#pragma unroll
                for (int c = 0; c < COLS; c++) {
                    const float same = beside(weight[(c - dx + 8 * COLS) % COLS], lanes_to(c - dx));
                    sum[dy][c] = fmaf(same, mine[c - dx + RADIUS], sum[dy][c]);
                    norm[dy][c] += same;
                }
            }
        }
        if (y >= first && writes) {
            float result[COLS];
#pragma unroll
            for (int c = 0; c < COLS; c++)
                result[c] = __fdividef(sum[0][c] + mine[c + RADIUS], (norm[0][c] + 1.0f) * scale);
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
