#include <cuda_bf16.h>

#define THREADS 256

extern "C" __global__ void channel_sums(const __nv_bfloat16 *x, const __nv_bfloat16 *dy, const float *mean,
                                        const float *rstd, float *dweight, float *dbias, int n, int channels, int space)
{
    __shared__ float scaled[THREADS], plain[THREADS];
    int tid = threadIdx.x, channel = blockIdx.x;
    float product = 0.0f, sum = 0.0f;
    for (int image = 0; image < n; image++)
        for (int i = tid; i < space; i += THREADS) {
            size_t at = ((size_t)image * channels + channel) * space + i;
            float g = __bfloat162float(dy[at]);
            product += g * (__bfloat162float(x[at]) - mean[channel]) * rstd[channel];
            sum += g;
        }
    scaled[tid] = product;
    plain[tid] = sum;
    __syncthreads();
    for (int stride = THREADS / 2; stride > 0; stride /= 2) {
        if (tid < stride) {
            scaled[tid] += scaled[tid + stride];
            plain[tid] += plain[tid + stride];
        }
        __syncthreads();
    }
    if (tid == 0) {
        dweight[channel] = scaled[0];
        dbias[channel] = plain[0];
    }
}

extern "C" __global__ void input_gradient(const __nv_bfloat16 *x, const __nv_bfloat16 *dy, const float *weight,
                                          const float *mean, const float *rstd, const float *dweight,
                                          const float *dbias, __nv_bfloat16 *dx, int n, int channels, int space)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * channels * space)
        return;
    int c = i / space % channels;
    float count = (float)n * space;
    float normal = (__bfloat162float(x[i]) - mean[c]) * rstd[c];
    float g = __bfloat162float(dy[i]) - dbias[c] / count - normal * dweight[c] / count;
    dx[i] = __float2bfloat16(weight[c] * rstd[c] * g);
}
