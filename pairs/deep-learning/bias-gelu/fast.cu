#define THREADS 256
#define ROWS 4

__device__ __forceinline__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

__device__ __forceinline__ float4 both(float4 x, float4 bias, float4 residual)
{
    return make_float4(gelu(x.x + bias.x) + residual.x, gelu(x.y + bias.y) + residual.y,
                       gelu(x.z + bias.z) + residual.z, gelu(x.w + bias.w) + residual.w);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    bias_gelu(const float *__restrict__ in, const float *__restrict__ bias, const float *__restrict__ residual,
              float *__restrict__ out, int rows, int cols)
{
    const int first = blockIdx.y * ROWS;
    if (cols % 4 == 0) {
        const int quads = cols / 4;
        const int col = blockIdx.x * THREADS + threadIdx.x;
        if (col >= quads)
            return;
        const float4 shift = __ldg(reinterpret_cast<const float4 *>(bias) + col);
        float4 x[ROWS], add[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (first + r < rows) {
                x[r] = __ldcs(reinterpret_cast<const float4 *>(in) + (first + r) * quads + col);
                add[r] = __ldcs(reinterpret_cast<const float4 *>(residual) + (first + r) * quads + col);
            }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (first + r < rows)
                __stcs(reinterpret_cast<float4 *>(out) + (first + r) * quads + col, both(x[r], shift, add[r]));
        return;
    }
    const int base = blockIdx.x * (4 * THREADS);
    for (int col = base + threadIdx.x; col < min(base + 4 * THREADS, cols); col += THREADS)
        for (int row = first; row < min(first + ROWS, rows); row++)
            out[row * cols + col] = gelu(in[row * cols + col] + bias[col]) + residual[row * cols + col];
}
