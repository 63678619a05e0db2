#include <cuda_bf16.h>

#define THREADS 256

extern "C" __global__ void input_gradient(const __nv_bfloat16 *x, const __nv_bfloat16 *dy, const __nv_bfloat16 *weight,
                                          const float *mean, const float *rstd, __nv_bfloat16 *dx, int cols)
{
    __shared__ float sums[THREADS], products[THREADS];
    int row = blockIdx.x, tid = threadIdx.x;
    float sum = 0.0f, product = 0.0f;
    for (int i = tid; i < cols; i += THREADS) {
        float g = __bfloat162float(dy[row * cols + i]) * __bfloat162float(weight[i]);
        float normal = (__bfloat162float(x[row * cols + i]) - mean[row]) * rstd[row];
        sum += g;
        product += g * normal;
    }
    sums[tid] = sum;
    products[tid] = product;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride) {
            sums[tid] += sums[tid + stride];
            products[tid] += products[tid + stride];
        }
        __syncthreads();
    }
    for (int i = tid; i < cols; i += THREADS) {
        float g = __bfloat162float(dy[row * cols + i]) * __bfloat162float(weight[i]);
        float normal = (__bfloat162float(x[row * cols + i]) - mean[row]) * rstd[row];
        dx[row * cols + i] = __float2bfloat16(rstd[row] * (g - sums[0] / cols - normal * products[0] / cols));
    }
}

extern "C" __global__ void weight_gradient(const __nv_bfloat16 *x, const __nv_bfloat16 *dy, const float *mean,
                                           const float *rstd, float *dweight, float *dbias, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cols)
        return;
    float scaled = 0.0f, plain = 0.0f;
    for (int row = 0; row < rows; row++) {
        float g = __bfloat162float(dy[row * cols + i]);
        scaled += g * (__bfloat162float(x[row * cols + i]) - mean[row]) * rstd[row];
        plain += g;
    }
    dweight[i] = scaled;
    dbias[i] = plain;
}
