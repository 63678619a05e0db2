#define COLS 128
#define ROWS 48
#define EACH 2

__device__ __forceinline__ void weights(float (&w)[4], float f)
{
    w[0] = ((-0.5f * f + 1.0f) * f - 0.5f) * f;
    w[1] = (1.5f * f - 2.5f) * f * f + 1.0f;
    w[2] = ((-1.5f * f + 2.0f) * f + 0.5f) * f;
    w[3] = (0.5f * f - 0.5f) * f * f;
}

// The input pixel left of (or above) an output pixel, and how far behind it that lies.
__device__ __forceinline__ int place_of(int x, int from, int to, float inverse, float &fraction)
{
    const int place = (2 * x + 1) * from + 3 * to, left = place / (2 * to);
    fraction = static_cast<float>(place - left * 2 * to) * inverse;
    return left - 2;
}

// The four pixels' places in a row, from the first one on.
struct Columns {
    int at[4];
    float weight[4];
};

// INNER: the four pixels stand side by side, so that one address serves them all.
template <bool INNER>
__device__ __forceinline__ void load_line(float (&to)[4], const float *__restrict__ from, const Columns &columns)
{
#pragma unroll
    for (int s = 0; s < 4; s++)
        to[s] = __ldg(from + (INNER ? s : columns.at[s]));
}

__device__ __forceinline__ float resampled(const float (&line)[4], const Columns &columns)
{
    return columns.weight[0] * line[0] + columns.weight[1] * line[1] +
           (columns.weight[2] * line[2] + columns.weight[3] * line[3]);
}

// Two columns, COLS apart, share the steps down. The four resampled rows that each needs stay in registers; the next row's
// pixels are on their way.
template <bool INNER>
__device__ __forceinline__ void march(const float *__restrict__ image, const int (&start)[EACH],
                                      const Columns (&columns)[EACH], float *__restrict__ to, int height, int width,
                                      int out_width, int rows, const float4 *down, const int *tops, bool both)
{
    int top = tops[0];
    const float *row = image + static_cast<size_t>(min(max(top, 0), height - 1)) * width;
    const float *from[EACH];
    float window[EACH][4], line[EACH][4];
#pragma unroll
    for (int e = 0; e < EACH; e++)
        from[e] = row + start[e];
#pragma unroll
    for (int s = 0; s < 5; s++) {
        const int step = top + s >= 0 && top + s + 1 < height ? width : 0;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            load_line<INNER>(line[e], from[e], columns[e]);
            if (s < 4)
                window[e][s < 4 ? s : 0] = resampled(line[e], columns[e]);
            from[e] += step;
        }
    }
#pragma unroll 1
    for (int r = 0; r < rows; r++) {
        const int wanted = tops[r];
        const float4 v = down[r];
#pragma unroll 1
        for (; top < wanted; top++) {
            const int step = top + 6 < height ? width : 0;
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                window[e][0] = window[e][1];
                window[e][1] = window[e][2];
                window[e][2] = window[e][3];
                window[e][3] = resampled(line[e], columns[e]);
                load_line<INNER>(line[e], from[e], columns[e]);
                from[e] += step;
            }
        }
        float own[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++)
            own[e] = v.x * window[e][0] + v.y * window[e][1] + (v.z * window[e][2] + v.w * window[e][3]);
        __stcs(to, own[0]);
        if (both)
            __stcs(to + COLS, own[1]);
        to += out_width;
    }
}

extern "C" __global__ void __launch_bounds__(COLS) resize(const float *__restrict__ image, float *__restrict__ resized,
                                                          int height, int width, int out_height, int out_width)
{
    __shared__ float4 down[ROWS];
    __shared__ int tops[ROWS];
    const int x = blockIdx.x * COLS * EACH + threadIdx.x, y = blockIdx.y * ROWS;
    const int rows = min(ROWS, out_height - y);
    float fraction;
    if (threadIdx.x < rows) {
        float w[4];
        tops[threadIdx.x] = place_of(y + threadIdx.x, height, out_height, 0.5f / out_height, fraction) - 1;
        weights(w, fraction);
        down[threadIdx.x] = make_float4(w[0], w[1], w[2], w[3]);
    }
    __syncthreads();
    if (x >= out_width)
        return;
    Columns columns[EACH];
    int start[EACH];
    bool inner = true;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int left = place_of(min(x + e * COLS, out_width - 1), width, out_width, 0.5f / out_width, fraction) - 1;
        start[e] = min(max(left, 0), width - 1);
        weights(columns[e].weight, fraction);
#pragma unroll
        for (int s = 0; s < 4; s++)
            columns[e].at[s] = min(max(left + s, 0), width - 1) - start[e];
        inner = inner && left >= 0 && left + 3 < width;
    }
    float *to = resized + static_cast<size_t>(y) * out_width + x;
    const bool both = x + COLS < out_width;
    if (__all_sync(__activemask(), inner))
        march<true>(image, start, columns, to, height, width, out_width, rows, down, tops, both);
    else
        march<false>(image, start, columns, to, height, width, out_width, rows, down, tops, both);
}
