#define COLS 128
#define ROWS 32

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

struct Columns {
    int at[4];
    float weight[4];
};

__device__ __forceinline__ void load_line(float (&to)[4], const float *__restrict__ image, int y, int height, int width,
                                          const Columns &columns)
{
    const float *row = image + static_cast<size_t>(min(max(y, 0), height - 1)) * width;
#pragma unroll
    for (int s = 0; s < 4; s++)
        to[s] = __ldg(row + columns.at[s]);
}

__device__ __forceinline__ float resampled(const float (&line)[4], const Columns &columns)
{
    return columns.weight[0] * line[0] + columns.weight[1] * line[1] +
           (columns.weight[2] * line[2] + columns.weight[3] * line[3]);
}

// A thread marches down a column of the output. The four resampled rows that it needs stay in registers; the next row's
// pixels are on their way.
extern "C" __global__ void __launch_bounds__(COLS) resize(const float *__restrict__ image, float *__restrict__ resized,
                                                          int height, int width, int out_height, int out_width)
{
    __shared__ float4 down[ROWS];
    __shared__ int tops[ROWS];
    const int x = blockIdx.x * COLS + threadIdx.x, y = blockIdx.y * ROWS;
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
    Columns columns;
    const int left = place_of(x, width, out_width, 0.5f / out_width, fraction);
    weights(columns.weight, fraction);
#pragma unroll
    for (int s = 0; s < 4; s++)
        columns.at[s] = min(max(left - 1 + s, 0), width - 1);
    int top = tops[0];
    float window[4], line[4];
#pragma unroll
    for (int s = 0; s < 4; s++) {
        load_line(line, image, top + s, height, width, columns);
        window[s] = resampled(line, columns);
    }
    load_line(line, image, top + 4, height, width, columns);
#pragma unroll 4
    for (int r = 0; r < rows; r++) {
        for (; top < tops[r]; top++) {
            window[0] = window[1];
            window[1] = window[2];
            window[2] = window[3];
            window[3] = resampled(line, columns);
            load_line(line, image, top + 5, height, width, columns);
        }
        const float4 v = down[r];
        __stcs(resized + static_cast<size_t>(y + r) * out_width + x,
               v.x * window[0] + v.y * window[1] + (v.z * window[2] + v.w * window[3]));
    }
}
