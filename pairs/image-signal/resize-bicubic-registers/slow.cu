#define COLS 128
#define ROWS 16

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

// Rows of the input are resampled once for all rows of the output that need them.
extern "C" __global__ void __launch_bounds__(COLS) resize(const float *__restrict__ image, float *__restrict__ resized,
                                                          int height, int width, int out_height, int out_width)
{
    extern __shared__ float lines[];
    __shared__ float4 down[ROWS];
    __shared__ int tops[ROWS];
    const int x = blockIdx.x * COLS + threadIdx.x, y = blockIdx.y * ROWS;
    const int rows = min(ROWS, out_height - y);
    float fraction, w[4];
    if (threadIdx.x < rows) {
        tops[threadIdx.x] = place_of(y + threadIdx.x, height, out_height, 0.5f / out_height, fraction);
        weights(w, fraction);
        down[threadIdx.x] = make_float4(w[0], w[1], w[2], w[3]);
    }
    __syncthreads();
    const int first = tops[0] - 1, count = tops[rows - 1] + 3 - first;
    const int left = place_of(min(x, out_width - 1), width, out_width, 0.5f / out_width, fraction);
    weights(w, fraction);
    int column[4];
#pragma unroll
    for (int s = 0; s < 4; s++)
        column[s] = min(max(left - 1 + s, 0), width - 1);
#pragma unroll 4
    for (int i = 0; i < count; i++) {
        const float *row = image + static_cast<size_t>(min(max(first + i, 0), height - 1)) * width;
        lines[i * COLS + threadIdx.x] = w[0] * __ldg(row + column[0]) + w[1] * __ldg(row + column[1]) +
                                        (w[2] * __ldg(row + column[2]) + w[3] * __ldg(row + column[3]));
    }
    if (x >= out_width)
        return;
#pragma unroll 4
    for (int r = 0; r < rows; r++) {
        const float4 v = down[r];
        const float *line = lines + (tops[r] - 1 - first) * COLS + threadIdx.x;
        __stcs(resized + static_cast<size_t>(y + r) * out_width + x,
               v.x * line[0] + v.y * line[COLS] + (v.z * line[2 * COLS] + v.w * line[3 * COLS]));
    }
}
