#include <cuda_bf16.h>

extern "C" __global__ void adamw(const __nv_bfloat16 *gradient, float *m, float *v, float *weights,
                                 __nv_bfloat16 *rounded, const float *rate, const float *decay, int count, float beta1,
                                 float beta2, float first, float second, float eps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float g = __bfloat162float(gradient[i]);
    m[i] = beta1 * m[i] + (1.0f - beta1) * g;
    v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
    float step = (m[i] / first) / (sqrtf(v[i] / second) + eps);
    weights[i] = weights[i] * (1.0f - rate[0] * decay[0]) - rate[0] * step;
    rounded[i] = __float2bfloat16(weights[i]);
}
