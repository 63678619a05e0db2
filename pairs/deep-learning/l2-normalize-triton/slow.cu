#include <cuda_bf16.h>

extern "C" __global__ void row_norm(const __nv_bfloat16 *x, float *norms, int rows, int cols, float eps)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) {
        float value = __bfloat162float(x[row * cols + i]);
        sum += value * value;
    }
    norms[row] = fmaxf(sqrtf(sum), eps);
}

extern "C" __global__ void divide(const __nv_bfloat16 *x, const float *norms, __nv_bfloat16 *out, int cols, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = __float2bfloat16(__bfloat162float(x[i]) / norms[i / cols]);
}
