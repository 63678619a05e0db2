#include <cuda_bf16.h>

#define WIDTH 4

extern "C" __global__ void causal_conv(const __nv_bfloat16 *x, const __nv_bfloat16 *weight, const __nv_bfloat16 *bias,
                                       __nv_bfloat16 *out, int channels, int length, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int t = i % length, channel = i / length % channels;
    float sum = __bfloat162float(bias[channel]);
    for (int j = 0; j < WIDTH; j++)
        if (t - (WIDTH - 1) + j >= 0)
            sum += __bfloat162float(weight[channel * WIDTH + j]) * __bfloat162float(x[i - (WIDTH - 1) + j]);
    out[i] = __float2bfloat16(sum / (1.0f + expf(-sum)));
}
