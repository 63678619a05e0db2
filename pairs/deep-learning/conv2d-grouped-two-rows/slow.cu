#define WIDTH 4
#define TAPS (WIDTH * WIDTH * 9)

// Four pixels of a row and their neighbours; zeros outside the image.
__device__ __forceinline__ void load_row(const float *__restrict__ row, int x, int w, bool inside, float (&to)[6])
{
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (inside && w % 4 == 0) {
        quad = *reinterpret_cast<const float4 *>(row + x);
    } else if (inside) {
        quad.x = row[x];
        quad.y = x + 1 < w ? row[x + 1] : 0.0f;
        quad.z = x + 2 < w ? row[x + 2] : 0.0f;
        quad.w = x + 3 < w ? row[x + 3] : 0.0f;
    }
    to[0] = inside && x > 0 ? row[x - 1] : 0.0f;
    to[1] = quad.x;
    to[2] = quad.y;
    to[3] = quad.z;
    to[4] = quad.w;
    to[5] = inside && x + 4 < w ? row[x + 4] : 0.0f;
}

// A block's threads have one group, and each four pixels of its four channels: an element serves twelve products a row.
extern "C" __global__ void __launch_bounds__(128)
    grouped_conv(const float *__restrict__ in, const float *__restrict__ weights, float *__restrict__ out, int groups,
                 int h, int w)
{
    __shared__ float4 taps[WIDTH * 9];
    const int group = blockIdx.y % groups, quads = (w + 3) / 4;
    const float *own = weights + group * TAPS;
    for (int i = threadIdx.x; i < TAPS; i += blockDim.x)
        reinterpret_cast<float *>(taps)[i % (WIDTH * 9) * WIDTH + i / (WIDTH * 9)] = own[i];
    __syncthreads();
    const int item = blockIdx.x * blockDim.x + threadIdx.x, y = item / quads, x = (item - y * quads) * 4;
    if (y >= h)
        return;
    const size_t plane = static_cast<size_t>(h) * w;
    const float *from = in + static_cast<size_t>(blockIdx.y) * WIDTH * plane;
    float sum[WIDTH][4] = {};
#pragma unroll
    for (int c = 0; c < WIDTH; c++)
#pragma unroll
        for (int dy = 0; dy < 3; dy++) {
            const int v = y + dy - 1;
            float value[6];
            load_row(from + c * plane + v * w, x, w, v >= 0 && v < h, value);
#pragma unroll
            for (int dx = 0; dx < 3; dx++) {
                const float4 tap = taps[c * 9 + dy * 3 + dx];
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    sum[0][j] = fmaf(tap.x, value[dx + j], sum[0][j]);
                    sum[1][j] = fmaf(tap.y, value[dx + j], sum[1][j]);
                    sum[2][j] = fmaf(tap.z, value[dx + j], sum[2][j]);
                    sum[3][j] = fmaf(tap.w, value[dx + j], sum[3][j]);
                }
            }
        }
    float *to = out + static_cast<size_t>(blockIdx.y) * WIDTH * plane + static_cast<size_t>(y) * w + x;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) {
        if (w % 4 == 0) {
            __stcs(reinterpret_cast<float4 *>(to + k * plane), make_float4(sum[k][0], sum[k][1], sum[k][2], sum[k][3]));
            continue;
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (x + j < w)
                to[k * plane + j] = sum[k][j];
    }
}
